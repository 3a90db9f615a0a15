// The command line: the command that it names is loaded, and run to an exit status.
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../checks/package-version.js';
import { escapedLines } from '../checks/words.js';
import { EXIT } from './output/exit-codes.js';
import { Interrupted, ReaderGone, type Streams } from './output/streams.js';

/** What the file of a subcommand does with it: adds arguments, options and the action. `done` takes the exit status. */
type Define = (command: Command, streams: Streams, done: (status: number) => void) => void;

interface Subcommand {
  /** As the list of commands shows it: its name first. */
  readonly usage: string;
  readonly about: string;
  readonly load: () => Promise<{ readonly define: Define }>;
}

const SUBCOMMANDS: readonly Subcommand[] = [
  {
    usage: 'analyze [options] <PATH...>',
    about: 'collapse metrics of every training step in logs',
    load: () => import('./commands/analyze.js'),
  },
  {
    usage: 'submit [options] [PATH...]',
    about: 'run an analysis on a cluster: Slurm, Ray, or jobs for Kubernetes',
    load: () => import('./commands/submit/options.js'),
  },
  {
    usage: 'plan-scores [options] <FILE>',
    about: 'which (row, prompt) pairs to score when scoring all of them is too expensive',
    load: () => import('./commands/plan-scores.js'),
  },
  {
    usage: 'score [options] <ROLLOUTS...>',
    about: 'cross-scores of rollouts from an inference engine, as step files',
    load: () => import('./commands/score.js'),
  },
  {
    usage: 'filter [options] <FILE>',
    about: 'groups (prompts) of a step that are worth an update: the variance-based filter',
    load: () => import('./commands/filter.js'),
  },
  {
    usage: 'watch [options] <DIR...>',
    about: "follow a trainer's logs while they grow: a line a step, and every new verdict",
    load: () => import('./commands/watch.js'),
  },
  {
    usage: 'serve [options] <DIR...>',
    about: 'the report as a page that is alive while a trainer writes its logs',
    load: () => import('./commands/serve.js'),
  },
  {
    usage: 'monitor [options]',
    about: 'the monitor as a process beside a trainer: JSON lines on stdin and stdout',
    load: () => import('./commands/monitor.js'),
  },
  {
    usage: 'report [options] <PATH...>',
    about: 'all runs as one page to look at, in one HTML file',
    load: () => import('./commands/report.js'),
  },
  {
    usage: 'explain [NAME...]',
    about: 'what a metric, a verdict or a word of the tables means, and what to do about it',
    load: () => import('./commands/explain.js'),
  },
  {
    usage: 'build [options]',
    about: 'compile the native addon for this machine, where no prebuilt one fits',
    load: () => import('./commands/build.js'),
  },
  {
    usage: 'formats [options]',
    about: "the trainers' rollout logs that can be read, and what makes each trainer write one",
    load: () => import('./commands/formats.js'),
  },
  {
    usage: 'doctor [options]',
    about: 'what this installation is made of, and whether it works',
    load: () => import('./commands/doctor.js'),
  },
];

/**
 * Runs the command that `args` (without node and script) name.
 * @returns exit status; errors are written to `streams.err`
 */
export async function runProgram(args: readonly string[], streams: Streams): Promise<number> {
  let status: number = EXIT.ok;
  // Commander writes without waiting: what it wrote is waited for at the end.
  const written: Promise<void>[] = [];
  try {
    const program = await buildProgram(args, streams, written, (code) => {
      status = code;
    });
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

/** All subcommands by name, and the one that `args` name with what it takes. */
async function buildProgram(
  args: readonly string[],
  streams: Streams,
  written: Promise<void>[],
  done: (status: number) => void,
): Promise<Command> {
  const { out, err } = streams;
  const usages = new Map(SUBCOMMANDS.map(({ usage }) => [nameOf(usage), usage]));
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
  const [first, second] = args.filter((word) => !word.startsWith('-'));
  const named = first === 'help' ? second : first;
  for (const { usage, about, load } of SUBCOMMANDS) {
    const name = nameOf(usage);
    const command = program.command(name).description(about).showHelpAfterError(`(see collapsar ${name} --help)`);
    if (name === named) (await load()).define(command, streams, done);
  }
  return program.configureHelp({
    subcommandTerm: (command) => usages.get(command.name()) ?? 'help [command]',
  });
}

const nameOf = (usage: string): string => usage.split(' ', 1)[0] as string;

/** Errors that are meant for people have a code; anything else is a defect, and its stack helps to report it. */
function errorText(error: unknown, { environment }: Streams): string {
  if (!(error instanceof Error)) return String(error);
  const meant = 'code' in error && typeof error.code === 'string';
  const text = (meant && !environment.COLLAPSAR_DEBUG ? error.message : error.stack) ?? error.message;
  // Names and contents of files are other people's: lines may break, but nothing else may steer a terminal.
  return escapedLines(text);
}
