// The command line -> one of the commands -> an exit status. Commands are loaded when they are called.
import { Command, CommanderError, Option } from 'commander';
import {
  DIALECTS,
  DIRECTIONS,
  LOSS_SCALINGS,
  METRICS,
  SINGLETON_POLICIES,
  STRATEGIES,
  TOP_P_MODES,
  TURN_REWARDS,
} from '../filter/filter-options.js';
import { escaped } from '../logs/printable.js';
import { packageVersion } from '../package-version.js';
import type { AnalyzeFlags } from './analyze.js';
import { EXIT } from './exit-codes.js';
import type { FilterFlags } from './filter.js';
import { addMeasuringOptions } from './measuring-options.js';
import { anyNumber, byteCount, outputPath, share, wholeNumber } from './option-values.js';
import type { PlanScoresFlags } from './plan-scores.js';
import { addShardCommands } from './shard-commands.js';
import { Interrupted, ReaderGone, type Streams } from './streams.js';
import { addSubmitCommand } from './submit/options.js';

const ANALYZE_HELP = `
Each PATH is a step file (.safetensors, .safetensors.gz, .safetensors.zst, .npz, .npy), a directory of them (searched
recursively), s3://bucket/prefix, or a glob in quotes.

Examples:
  collapsar analyze runs/grpo-7b
  collapsar analyze runs/a runs/b --jsonl > metrics.jsonl
  collapsar analyze 'runs/*/step_0*.safetensors' --profile ragen --metrics 'mi_*,retrieval_accuracy'

Exit status: 0; 1 when some files could not be used (all are listed, the rest is reported); 2 for wrong usage.`;

const PLAN_SCORES_HELP = `
FILE is a step file (.safetensors, also .gz or .zst; .npz, .npy), or JSON lines with a row each: {"group": 3, "length": 120, "turn": 1};
- is stdin.
A line of the result is a prompt with the rows to score under it, so that its KV cache serves them all. "inclusion" is the
probability with which each pair was drawn, 1 for a row's own prompt.

Examples:
  collapsar plan-scores step_00120.safetensors --negatives 4 > pairs.jsonl
  collapsar plan-scores rows.jsonl --negatives 8 --hard --csv

Exit status: 0; 1 when the file cannot be used or is too small for what was asked; 2 for wrong usage.`;

const FILTER_HELP = `
A line is "group, reward" (commas, tabs or spaces; a third field is the outcome), or a JSON object with group,
reward and, if there are, outcome, episode, turn, entropy, length. On a terminal all groups are shown as a table;
elsewhere the kept ones are printed, one a line.

Examples:
  collapsar filter runs/grpo-7b/step_00120.safetensors
  collapsar filter rewards.jsonl --dialect upstream --json
  cut -f 2,5 rollouts.tsv | collapsar filter - --strategy top_k --value 0.25

Exit status: 0, also when no group is kept; 1 when the file cannot be used; 2 for wrong usage.`;

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

const USAGE = { exitCode: EXIT.usage };

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

  /** Those of `--resume` and `--no-resume` that were given: commander keeps only the last. */
  const resuming = new Set<string>();
  const analyze = addMeasuringOptions(
    program
      .command('analyze')
      .description('collapse metrics of every training step in logs')
      .argument('<PATH...>', 'step files, directories of them, or globs')
      .addOption(new Option('--json', 'print one JSON array of records').conflicts('jsonl'))
      .addOption(new Option('--jsonl', 'print one JSON record a line, as steps are finished')),
  )
    .option('--out <dir>', 'also write metrics.jsonl, metrics.parquet and summary.json to this directory', outputPath)
    .option('--resume', 'with --out: continue after the steps that a killed analysis had measured (default)')
    .option('--no-resume', 'with --out: measure all steps anew')
    .option(
      '--keep-journal',
      'with --out: keep what was measured, so that a later analysis measures only files that changed',
    )
    .option('--every <n>', 'show every n-th step in tables (default: at most 200); trends are over all', wholeNumber(1))
    .option('--threads <n>', 'threads to compute with (default: one a core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'memory to use, about, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar analyze --help)')
    .addHelpText('after', ANALYZE_HELP)
    .on('option:resume', () => resuming.add('--resume'))
    .on('option:no-resume', () => resuming.add('--no-resume'))
    .action(async (paths: string[], flags: AnalyzeFlags) => {
      if (resuming.size > 1) analyze.error('error: --resume and --no-resume cannot be used together', USAGE);
      const [lonely = flags.keepJournal && '--keep-journal'] = resuming;
      if (lonely !== undefined && flags.out === undefined) {
        analyze.error(
          `error: ${lonely} is about what is kept in the directory of --out: give --out, or leave it out`,
          USAGE,
        );
      }
      const { analyzeCommand } = await import('./analyze.js');
      done(await analyzeCommand(paths, flags, streams));
    });

  addShardCommands(program, streams, done);
  addSubmitCommand(program, streams, done);

  program
    .command('plan-scores')
    .description('which (row, prompt) pairs to score when scoring all is too dear')
    .argument('<FILE>', 'step file, JSON lines of rows, or - for stdin')
    .requiredOption(
      '--negatives <m>',
      'prompts other than its own to score each row under, at least 3 (with --hard 4)',
      wholeNumber(3),
    )
    .option('--seed <n>', 'seed of the draw', wholeNumber(0), 0)
    .option('--hard', 'draw some of them among the prompts of the same turn')
    .option('--hard-share <x>', 'with --hard: how many of them, 0 to 1', share, 0.5)
    .option('--csv', 'print CSV, a pair a line, instead of JSON lines, a prompt a line')
    .option('--quiet', 'no summary on stderr')
    .showHelpAfterError('(see collapsar plan-scores --help)')
    .addHelpText('after', PLAN_SCORES_HELP)
    .action(async (file: string, flags: PlanScoresFlags, command: Command) => {
      if (command.getOptionValueSource('hardShare') === 'cli' && !flags.hard) {
        command.error('error: --hard-share is a share of what --hard draws: give --hard, or leave it out', USAGE);
      }
      const { planScoresCommand } = await import('./plan-scores.js');
      done(await planScoresCommand(file, flags, streams));
    });

  program
    .command('filter')
    .description('groups (prompts) of a step that are worth an update: the variance-based filter')
    .argument('<FILE>', 'a step file with rewards, lines of group and reward, or - for stdin')
    .addOption(new Option('--dialect <name>', 'whose rules').choices(DIALECTS).default('strict'))
    .addOption(new Option('--strategy <name>', 'how many to keep').choices(STRATEGIES).default('top_p'))
    .option('--value <v>', 'share or number that the strategy asks for (default: 0.9 for top_p)', anyNumber)
    .addOption(new Option('--metric <name>', 'what groups are ranked by').choices(METRICS).default('reward_variance'))
    .addOption(new Option('--direction <name>', 'which scores are kept').choices(DIRECTIONS).default('largest'))
    .option('--include-zero', 'groups of zero score, such as those whose rollouts are all alike, may be kept')
    .option(
      '--no-include-zero',
      'they are dropped first (default for reward_variance and entropy_variance, but under ragen)',
    )
    .addOption(new Option('--top-p-mode <name>', 'masses of top_p').choices(TOP_P_MODES).default('linear'))
    .option('--eps <e>', "slack of top_p's threshold (default: by dialect, docs/filter.md)", anyNumber)
    .addOption(
      new Option(
        '--singletons <policy>',
        'groups of one rollout (default: drop; upstream: they have variance 0)',
      ).choices(SINGLETON_POLICIES),
    )
    .addOption(
      new Option('--loss-scale <rule>', 'what the loss is multiplied with (default: none; paper: rho)').choices(
        LOSS_SCALINGS,
      ),
    )
    .addOption(
      new Option('--turn-rewards <rule>', "which turn has its episode's reward (default: same; ragen: first)").choices(
        TURN_REWARDS,
      ),
    )
    .addOption(
      new Option('--non-finite <what>', 'a reward that is NaN or infinite (default: error)').choices([
        'error',
        'exclude',
      ]),
    )
    .option('--ddof <n>', 'upstream: delta degrees of freedom of the variance (default: 1)', wholeNumber(0))
    .option('--json', 'print one JSON object: kept and dropped groups, scores, row mask, loss scale, metrics')
    .showHelpAfterError('(see collapsar filter --help)')
    .addHelpText('after', FILTER_HELP)
    .action(async (file: string, flags: FilterFlags) => {
      const { filterCommand } = await import('./filter.js');
      done(await filterCommand(file, flags, streams));
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
  const text = (meant && !environment.COLLAPSAR_DEBUG ? error.message : error.stack) ?? error.message;
  // Names of files and what stands in them are other people's: lines may break, and nothing else may steer a terminal.
  return text.split('\n').map(escaped).join('\n');
}
