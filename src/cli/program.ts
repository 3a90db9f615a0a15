// The command line -> one of the commands -> an exit status. Commands are loaded when they are called.
import { Command, CommanderError, Option } from 'commander';
import type { AnalyzeFlags } from './analyze.js';
import { EXIT } from './exit-codes.js';
import { nameList, notEmpty, wholeNumber } from './option-values.js';
import { packageVersion } from './package-version.js';
import { Interrupted, type Streams } from './streams.js';

const ANALYZE_HELP = `
Each PATH is a step file, a directory of step files (searched recursively), or a glob in quotes.

Examples:
  collapsar analyze runs/grpo-7b
  collapsar analyze runs/a runs/b --jsonl > metrics.jsonl
  collapsar analyze 'runs/*/step_0*.safetensors' --profile ragen --metrics 'mi_*,retrieval_accuracy'

Exit status: 0; 1 when some files could not be used (all are listed, the rest is reported); 2 for wrong usage.`;

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
      writeErr: (text) => written.push(err.write(text)),
      getOutHelpWidth: () => Math.min(out.columns ?? 100, 100),
      getErrHelpWidth: () => Math.min(err.columns ?? 100, 100),
    });

  program
    .command('analyze')
    .description('collapse metrics of every training step in logs')
    .argument('<PATH...>', 'step files, directories of them, or globs')
    .addOption(new Option('--json', 'print one JSON array of records').conflicts('jsonl'))
    .addOption(new Option('--jsonl', 'print one JSON record a line, as steps are finished'))
    .addOption(
      new Option('--profile <name>', 'strict: defects of the reference repaired; ragen: its very numbers')
        .choices(['strict', 'ragen'])
        .default('strict'),
    )
    .option('--metrics <names>', 'metrics to give: logged keys, names without prefix, or globs; by commas', nameList)
    .option('--out <dir>', 'also write metrics.jsonl, summary.json and failures.jsonl to this directory', notEmpty)
    .option('--every <n>', 'show every n-th step in tables; trends are over all', wholeNumber(1), 1)
    .option('--threads <n>', 'threads to compute with (default: one a core)', wholeNumber(1, 1024))
    .option('--permutations <n>', 'label permutations behind each p-value; 0 for none', wholeNumber(0, 1e7), 999)
    .option('--seed <n>', 'seed of permutations and samplers', wholeNumber(0), 0)
    .option('--samples <n>', 'draws of the trajectory and turn samplers', wholeNumber(1, 2 ** 31 - 1), 64)
    .addOption(
      new Option('--non-finite <what>', 'a used score that is NaN or +inf: fail the file, or leave out the row')
        .choices(['error', 'exclude'])
        .default('error'),
    )
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar analyze --help)')
    .addHelpText('after', ANALYZE_HELP)
    .action(async (paths: string[], flags: AnalyzeFlags) => {
      const { analyzeCommand } = await import('./analyze.js');
      done(await analyzeCommand(paths, flags, streams));
    });

  program
    .command('doctor')
    .description('what this installation is made of, and whether it works')
    .option('--json', 'print one JSON object')
    .showHelpAfterError('(see collapsar doctor --help)')
    .action(async (flags: { json?: true }) => {
      const { doctorCommand } = await import('./doctor.js');
      done(await doctorCommand(flags, streams));
    });

  return program;
}

/** Errors that are meant for people have a code; anything else is a defect, and its stack helps to report it. */
function errorText(error: unknown, { environment }: Streams): string {
  if (!(error instanceof Error)) return String(error);
  const meant = 'code' in error && typeof error.code === 'string';
  return (meant && !environment.COLLAPSAR_DEBUG ? error.message : error.stack) ?? error.message;
}
