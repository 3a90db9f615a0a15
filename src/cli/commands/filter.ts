// `collapsar filter`: rewards of one step in, the groups that are worth an update out on stdout, remarks on stderr.

import { type Command, Option } from 'commander';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { shortNumber } from '../../checks/numbers.js';
import { argumentProblem, escaped } from '../../checks/words.js';
import { filterGroupsAs } from '../../filter/filter-groups.js';
import type { DropReason, FilterResult } from '../../filter/filter-result.js';
import {
  DIALECTS,
  DIRECTIONS,
  type FilterOptions,
  type FilterSettings,
  LOSS_SCALINGS,
  METRICS,
  resolveFilterOptions,
  SINGLETON_POLICIES,
  STRATEGIES,
  TOP_P_MODES,
  TURN_REWARDS,
} from '../../filter/input/filter-options.js';
import type { Spelling } from '../../filter/input/sentences.js';
import { type FilterSource, readFilterSource } from '../input/filter-source.js';
import { addLogOptions, type LogFlags, logFlags, withoutLogFlags } from '../options/log-options.js';
import { anyNumber, byteCount, wholeNumber } from '../options/option-values.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import { jsonPieces } from '../output/json-pieces.js';
import type { Streams } from '../output/streams.js';
import { layoutTable, widthOf } from '../output/table.js';
import { painter } from '../output/text-style.js';
import { wrap } from '../output/text-wrap.js';

const HELP = `
A table has a row a rollout, in JSON lines, in CSV or in Parquet: its group (or group_id, uid) and reward (or score) and, where they
exist, outcome, episode, turn, entropy, length; --columns names others. CSV without a heading is "group,reward" or
"group,reward,outcome". Text is UTF-8 (iconv converts other encodings). On a terminal all groups are shown as a table; elsewhere
the kept ones are printed, one a line.
A rollout log (Parquet, JSON lines or a folder, see collapsar formats) has the rewards of one step, or of several, of which --step
names one.

Examples:
  collapsar filter runs/grpo-7b/step_00120.safetensors
  collapsar filter outputs/rollouts --step 120
  collapsar filter rewards.jsonl --dialect upstream --json
  cut -f 2,5 rollouts.tsv | tr '\\t' , | collapsar filter - --strategy top_k --value 0.25

Exit status: 0, also when no group is kept; 1 when the file cannot be used; 2 for wrong usage.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .argument(
      '<FILE>',
      'a step file with rewards, a rollout log, a table of group and reward, or - for a table on stdin',
    )
    .addOption(new Option('--dialect <name>', 'whose rules to follow').choices(DIALECTS).default('strict'))
    .addOption(new Option('--strategy <name>', 'rule for how many groups to keep').choices(STRATEGIES).default('top_p'))
    .option(
      '--value <v>',
      'share or number that the strategy asks for (default: 0.9 for top_p, 1 for top_k of upstream)',
      anyNumber,
    )
    .addOption(new Option('--metric <name>', 'what groups are ranked by').choices(METRICS).default('reward_variance'))
    .addOption(new Option('--direction <name>', 'which scores are kept').choices(DIRECTIONS).default('largest'))
    .option('--include-zero', 'let groups of zero score be kept, such as those whose rollouts are all alike')
    .option(
      '--no-include-zero',
      'drop them first (default for reward_variance and entropy_variance, except under ragen)',
    )
    .addOption(new Option('--top-p-mode <name>', 'how top_p weighs groups').choices(TOP_P_MODES).default('linear'))
    .option('--eps <e>', "slack of top_p's threshold (default: by dialect, docs/reference/filter.md)", anyNumber)
    .addOption(
      new Option(
        '--singletons <policy>',
        'what to do with groups of one rollout (default: drop; upstream: they have variance 0)',
      ).choices(SINGLETON_POLICIES),
    )
    .addOption(
      new Option('--loss-scale <rule>', 'what the loss is multiplied by (default: none; paper: rho)').choices(
        LOSS_SCALINGS,
      ),
    )
    .addOption(
      new Option(
        '--turn-rewards <rule>',
        "what the rewards of turns make the episode's reward (default: same; ragen: first)",
      ).choices(TURN_REWARDS),
    )
    .addOption(
      new Option('--non-finite <what>', 'what to do with a reward that is NaN or infinite (default: error)').choices([
        'error',
        'exclude',
      ]),
    )
    .option('--ddof <n>', 'upstream: delta degrees of freedom of the variance (default: 1)', wholeNumber(0))
    .option('--step <n>', 'which step of a log of several', wholeNumber(0))
    .option('--max-memory <bytes>', 'approximate memory to read rows in (default: 300MB)', byteCount)
    .option('--json', 'print one JSON object: kept and dropped groups, scores, row mask, loss scale, metrics');
  addLogOptions(command)
    .addHelpText('after', afterOptions(HELP))
    .action(async (file: string, flags: FilterFlags) => {
      done(await filterCommand(file, flags, streams));
    });
}

/** The options of the command line, each checked by itself. */
export interface FilterFlags extends FilterOptions, LogFlags {
  step?: number;
  maxMemory?: number;
  json?: true;
}

const REASONS: Readonly<Record<DropReason, string>> = {
  singleton: 'one rollout has no spread',
  no_rollouts: 'no finite reward',
  zero_score: 'all rollouts alike',
  below_cut: 'below the cut',
  nothing_selected: 'no group reaches the threshold',
  all_succeed: 'all succeed',
  all_fail: 'all fail',
  same_outcome: 'all have one outcome',
};

/** @returns exit status */
export async function filterCommand(path: string, flags: FilterFlags, streams: Streams): Promise<number> {
  const { json, step, maxMemory, ...rest } = flags;
  const options: FilterOptions = withoutLogFlags(rest);
  const logs = { ...logFlags(flags), ...(step !== undefined && { step }), maxMemory };
  let settings: FilterSettings;
  try {
    settings = resolveFilterOptions(options);
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    await streams.err.write(`error: --${optionName(error.argument)} ${argumentProblem(error)}\n`);
    await streams.err.write('(see collapsar filter --help and docs/reference/filter.md)\n');
    return EXIT.usage;
  }
  const source = await readFilterSource(path, settings, logs, streams.signal);
  const result = filterSource(source, options);
  for (const warning of [...source.notes, ...result.warnings])
    await streams.err.write(`${wrap(escaped(warning), widthOf(streams.err), 'note: ')}\n`);
  if (json) {
    await writeAll(jsonPieces(record(source, settings, result)), streams);
    await streams.out.write('\n');
  } else if (streams.out.isTTY) await streams.out.write(table(source, settings, result, streams));
  else await writeAll(names(source, result), streams);
  return EXIT.ok;
}

async function writeAll(pieces: Iterable<string>, { out }: Streams): Promise<void> {
  for (const piece of pieces) {
    if (out.closed.aborted) return;
    await out.write(piece);
  }
}

/** Names of kept groups in one piece. */
const NAMES = 4096;

function* names({ nameOf }: FilterSource, { kept }: FilterResult): Generator<string, void, undefined> {
  for (let first = 0; first < kept.length; first += NAMES) {
    yield kept
      .slice(first, first + NAMES)
      .map((group) => `${onOneLine(nameOf(group))}\n`)
      .join('');
  }
}

/** A name is a line; one that breaks it, as the text of a prompt may, is written as JSON writes it. */
function onOneLine(name: string): string {
  return /[\n\r]/.test(name) ? JSON.stringify(name) : name;
}

/** Name of an option on the command line: `loss-scale` for `options.lossScale`. */
function optionName(argument: string): string {
  return argument.replace(/^options\./, '').replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** How options are given here. */
const OPTIONS: Spelling['options'] = {
  nonFinite: '--non-finite exclude',
  singletons: '--singletons',
  turnRewards: '--turn-rewards',
  includeZero: 'give --no-include-zero',
};

/** A column of numbers holds NaN if a row has none. */
function nameOfReward(value: number | null | undefined): string {
  return Number.isNaN(value) ? 'missing or NaN' : String(value);
}

/** What the data make impossible is the file's fault, and named with it. */
function filterSource({ path, input, nameOf }: FilterSource, options: FilterOptions): FilterResult {
  try {
    const spelling = { argument: String, group: nameOf, reward: nameOfReward, options: OPTIONS };
    return filterGroupsAs(spelling, input, options);
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new FileError({ path }, error.message, { cause: error });
  }
}

/** Lists of groups and rows are made as they are written. */
function record(source: FilterSource, settings: FilterSettings, result: FilterResult) {
  const { dialect, strategy, value, metric, direction } = settings;
  return {
    file: source.path,
    dialect,
    ...(dialect === 'dapo' ? {} : { strategy, value, metric, direction }),
    kept: mapped(result.kept, source.nameOf),
    dropped: mapped(result.dropped, ({ group, reason }) => ({ group: source.nameOf(group), reason })),
    groups: groupRecords(source, result),
    row_mask: result.rowMask,
    loss_scale: result.lossScale,
    empty: result.empty,
    metrics: result.metrics,
    warnings: result.warnings,
  };
}

function* mapped<Item, Result>(items: Iterable<Item>, map: (item: Item) => Result) {
  for (const item of items) yield map(item);
}

function* groupRecords({ nameOf }: FilterSource, { groups, kept, scores, rewardVariances }: FilterResult) {
  // Both in the order of the input.
  let next = 0;
  for (const [at, group] of groups.entries()) {
    const isKept = kept[next] === group;
    if (isKept) next++;
    yield { group: nameOf(group), score: scores[at], reward_variance: rewardVariances[at], kept: isKept };
  }
}

function table(source: FilterSource, settings: FilterSettings, result: FilterResult, streams: Streams): string {
  const paint = painter(streams.out, streams.environment);
  const reasonOf = new Map(result.dropped.map(({ group, reason }) => [group, reason]));
  const groups = [...result.groups];
  const sizes = new Map<string, number>();
  for (const group of source.groupOfRow) sizes.set(String(group), (sizes.get(String(group)) ?? 0) + 1);
  const column = (title: string, align: 'left' | 'right', textOf: (group: number | bigint, at: number) => string) => ({
    title,
    align,
    cells: groups.map((group, at) => ({
      text: textOf(group, at),
      style: reasonOf.has(group) ? ('dim' as const) : undefined,
    })),
  });
  const columns = [
    column('group', 'right', (group) => escaped(source.nameOf(group))),
    column('rows', 'right', (group) => String(sizes.get(String(group)) ?? 0)),
    column('score', 'right', (_, at) => shortNumber(result.scores[at])),
    column('variance', 'right', (_, at) => shortNumber(result.rewardVariances[at])),
    column('', 'left', (group) => {
      const reason = reasonOf.get(group);
      return reason === undefined ? 'kept' : REASONS[reason];
    }),
  ];
  const { text: groupsTable } = layoutTable(columns, Number.POSITIVE_INFINITY, paint);
  return `${groupsTable}\n${wrap(summary(settings, result), widthOf(streams.out), '  ')}\n`;
}

function summary(settings: FilterSettings, { kept, groups, lossScale, metrics }: FilterResult): string {
  const { dialect, strategy, value, metric, direction } = settings;
  const rule = dialect === 'dapo' ? 'dapo' : `${dialect}, ${strategy} ${value}, ${direction} ${metric}`;
  const gate = metrics['rollout/filter_gate'];
  const parts = [
    `${kept.length} of ${groups.length} groups kept (${rule})`,
    lossScale === 1 ? '' : `loss scale ${shortNumber(lossScale)}`,
    gate === undefined ? '' : `Std(RV)/Mean(RV) ${shortNumber(gate)}`,
  ];
  return parts.filter((part) => part !== '').join('; ');
}
