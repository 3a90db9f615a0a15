// The command line -> one of the commands -> an exit status. Commands are loaded when they are called.
import { Command, CommanderError, Option } from 'commander';
import { packageVersion } from '../checks/package-version.js';
import { escapedLines } from '../checks/words.js';
import type { BuildFlags } from './commands/build.js';
import { addSubmitCommand } from './commands/submit/options.js';
import { addAnalyzeCommand } from './options/analyze-options.js';
import { addFilterCommand } from './options/filter-options.js';
import { addMonitorCommand } from './options/monitor-options.js';
import { addPlanScoresCommand } from './options/plan-scores-options.js';
import { addReportCommand } from './options/report-options.js';
import { addScoreCommand } from './options/score-options.js';
import { addServeCommand } from './options/serve-options.js';
import { addWatchCommand } from './options/watch-options.js';
import { EXIT } from './output/exit-codes.js';
import { Interrupted, ReaderGone, type Streams } from './output/streams.js';

/**
 * Runs the command that `args` (without node and script) name.
 * @returns exit status; errors are written to `streams.err`
 */
export async function runProgram(args: readonly string[], streams: Streams): Promise<number> {
  let status: number = EXIT.ok;
  // Commander writes without waiting: what it wrote is waited for at the end.
  const written: Promise<void>[] = [];
  const program = buildProgram(streams, written, (code) => {
    status = code;
  });
  try {
    if (args.length === 0) {
      program.outputHelp({ error: true });
      status = EXIT.usage;
    } else {
      await program.parseAsync([...args], { from: 'user' });
    }
  } catch (error) {
    if (error instanceof CommanderError) {
      status = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    } else if (error instanceof Interrupted) {
      await streams.err.write(`${error.message}\n`);
      status = error.exitCode;
    } else {
      await streams.err.write(`error: ${errorText(error, streams)}\n`);
      status = EXIT.failures;
    }
  }
  await Promise.all(written);
  const { closed } = streams.out;
  if (status === EXIT.ok && closed.aborted && !(closed.reason instanceof ReaderGone)) {
    await streams.err.write(`error: ${errorText(closed.reason, streams)}\n`);
    return EXIT.failures;
  }
  return status;
}

function buildProgram(streams: Streams, written: Promise<void>[], done: (status: number) => void): Command {
  const { out, err } = streams;
  const program = new Command('collapsar')
    .description('Finds template collapse in RL-trained LLM agents before the reward curve does.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .showHelpAfterError('(see collapsar --help)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => written.push(out.write(text)),
      // Errors repeat what was given.
      writeErr: (text) => written.push(err.write(escapedLines(text))),
      getOutHelpWidth: () => Math.min(out.columns ?? 100, 100),
      getErrHelpWidth: () => Math.min(err.columns ?? 100, 100),
    });

  addAnalyzeCommand(program, streams, done);
  addSubmitCommand(program, streams, done);
  addPlanScoresCommand(program, streams, done);
  addScoreCommand(program, streams, done);
  addFilterCommand(program, streams, done);
  addWatchCommand(program, streams, done);
  addServeCommand(program, streams, done);
  addMonitorCommand(program, streams, done);
  addReportCommand(program, streams, done);
  program
    .command('explain')
    .description('what a metric, a verdict or a word of the tables means, and what to do about it')
    .argument('[NAME...]', 'mi, template_collapse, p, …; without one: all names')
    .showHelpAfterError('(see collapsar explain --help)')
    .action(async (words: string[]) => {
      const { explainCommand } = await import('./commands/explain.js');
      done(await explainCommand(words.join(' '), streams));
    });
  program
    .command('build')
    .description('compile the native addon for this machine, where no prebuilt one fits')
    .addOption(new Option('--cuda <when>', 'the CUDA backend, too').choices(['on', 'off', 'auto']))
    .addOption(new Option('--with <tool>', 'what to compile with').choices(['cmake', 'gyp']))
    .showHelpAfterError('(see collapsar build --help)')
    .action(async (flags: BuildFlags) => {
      const { buildCommand } = await import('./commands/build.js');
      done(await buildCommand(flags, streams));
    });
  program
    .command('formats')
    .description("the trainers' rollout logs that can be read, and what makes each trainer write one")
    .option('--json', 'print one JSON array')
    .showHelpAfterError('(see collapsar formats --help)')
    .action(async (flags: { json?: true }) => {
      const { formatsCommand } = await import('./commands/formats.js');
      done(await formatsCommand(flags, streams));
    });
  program
    .command('doctor')
    .description('what this installation is made of, and whether it works')
    .option('--json', 'print one JSON object')
    .showHelpAfterError('(see collapsar doctor --help)')
    .action(async (flags: { json?: true }) => {
      const { doctorCommand } = await import('./commands/doctor.js');
      done(await doctorCommand(flags, streams));
    });

  return program;
}

/** Errors that are meant for people have a code; anything else is a defect, and its stack helps to report it. */
function errorText(error: unknown, { environment }: Streams): string {
  if (!(error instanceof Error)) return String(error);
  const meant = 'code' in error && typeof error.code === 'string';
  const text = (meant && !environment.COLLAPSAR_DEBUG ? error.message : error.stack) ?? error.message;
  // Names of files and what stands in them are other people's: lines may break, and nothing else may steer a terminal.
  return escapedLines(text);
}
