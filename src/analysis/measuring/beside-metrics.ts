// What a step's rewards, outcomes and actions say, whether it has cross-scores or texts alone: the filter's choice, and
// what the judge reads.
import { ArgumentError } from '../../checks/errors.js';
import { argumentProblem } from '../../checks/words.js';
import type { Engine } from '../../engine/engine.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { filterGroupsInWords } from '../../filter/filter-groups.js';
import { episodeRewards, type FilterResult, type TurnRewards } from '../../filter/index.js';
import { type FilterWords, LIBRARY_WORDS } from '../../filter/input/filter-words.js';
import type { GroupName } from '../../monitor/prompts/prompt-measurement.js';
import type { ReasoningSwaps } from '../../verdicts/evidence/step-evidence.js';
import { type RowEvidence, readEvidenceOn, type StepEvidence, type StepReading } from '../../verdicts/index.js';

/** What the filter would do with a step, without its arrays. */
export interface FilterView extends Pick<FilterResult, 'empty' | 'warnings' | 'metrics'> {
  readonly kept: readonly GroupName[];
  readonly dropped: readonly { readonly group: GroupName; readonly reason: string }[];
}

/** Parts of a step's measurement. */
export interface BesideMetrics {
  readonly reading?: StepReading;
  readonly filter?: FilterView;
  readonly notes: readonly string[];
}

/** One value a row, [R]. */
export interface RowColumns {
  readonly step: number;
  readonly group: Integers;
  /** How the filter's choice names a group. Default: as `group` has it. */
  readonly nameOf?: ((group: number) => GroupName) | undefined;
  readonly episode?: Integers | undefined;
  readonly turn?: Integers | undefined;
  /** Actions, or numbers that stand for them. */
  readonly actions?: Integers | undefined;
  readonly correct?: Uint8Array | undefined;
  readonly rewards?: Float64Array | Float32Array | undefined;
  readonly outcome?: Float64Array | Float32Array | undefined;
  /** Sums over tokens of log p(z | x without state or image). */
  readonly ablated?: ArrayLike<number> | undefined;
  readonly reasoningSwaps?: ReasoningSwaps | undefined;
}

/**
 * What rewards, actions and the rest say. A step whose scores or texts are fine is reported, whatever is wrong with
 * these.
 */
export async function besideMetrics(
  engine: Engine,
  columns: RowColumns,
  figures: Pick<StepEvidence, 'metrics' | 'figures'>,
  { seed, turnRewards }: { readonly seed: number; readonly turnRewards: TurnRewards },
  signal: AbortSignal,
): Promise<BesideMetrics> {
  const notes: string[] = [];
  const attempt = async <T>(what: string, work: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      notes.push(`${what}: ${error.message}`);
      return undefined;
    }
  };
  const { group, episode, turn, actions, correct, rewards, outcome, ablated, reasoningSwaps } = columns;
  // Without episodes turns say nothing of rewards.
  const turnLabels = { episodes: episode, turns: episode && turn };
  const filter =
    rewards &&
    (await attempt('no filter', () => {
      const input = { values: rewards, groups: group, ...turnLabels };
      // As `collapsar filter` takes them (docs/filter.md); verdicts ask first whether a row was right.
      const given = { rewards: input, outcomes: outcome ?? correct };
      const result = filterGroupsInWords(given, { nonFinite: 'exclude', turnRewards }, WORDS);
      const { kept, dropped, empty, warnings, metrics } = result;
      return { kept, dropped, empty, warnings, metrics };
    }));
  /** What every row's episode was given; left out where its turns disagree. */
  const settled = <Name extends 'rewards' | 'outcomes'>(name: Name, values: ArrayLike<number> | undefined) =>
    attempt(`left out of the verdicts: ${name}`, () => {
      const given = { groups: group, ...turnLabels, [name]: values };
      return episodeRewards(given, turnRewards, WORDS)[name];
    });
  const rows = {
    groups: group,
    rewards: await settled('rewards', rewards),
    outcomes: await settled('outcomes', correct ?? outcome),
    actions,
    episodes: episode,
    turns: turn,
    ablated,
    reasoningSwaps,
  };
  const success = correct && meanOf(correct);
  const reading = await attempt('no verdicts', () =>
    readRows(rows, notes, (usable) =>
      readEvidenceOn(engine, { step: columns.step, ...figures, rows: usable, filter, success }, { seed, signal }),
    ),
  );
  return { ...(reading && { reading }), ...(filter && { filter: inNames(filter, columns.nameOf) }), notes };
}

const WORDS: FilterWords = {
  ...LIBRARY_WORDS,
  options: { ...LIBRARY_WORDS.options, turnRewards: 'turnRewards (--turn-rewards)' },
};

function inNames(filter: FilterView, nameOf: RowColumns['nameOf']): FilterView {
  if (nameOf === undefined) return filter;
  const named = (group: GroupName): GroupName => nameOf(Number(group));
  return {
    ...filter,
    kept: filter.kept.map(named),
    dropped: filter.dropped.map(({ group, reason }) => ({ group: named(group), reason })),
  };
}

/** What columns are called in a step file. */
const TENSORS: { readonly [Column in keyof RowEvidence]?: string } = {
  reasoningSwaps: 'action_logprobs',
  turns: 'turn',
  ablated: 'ablated_logprobs',
};

/** A column that does not fit the others costs what is made of it, not what the scores say. */
async function readRows(
  rows: RowEvidence,
  notes: string[],
  read: (rows: RowEvidence) => Promise<StepReading>,
): Promise<StepReading> {
  const usable: Record<string, unknown> = { ...rows };
  for (;;) {
    try {
      return await read(usable as unknown as RowEvidence);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const [, column = ''] = /^evidence\.rows\.(\w+)$/.exec(error.argument) ?? [];
      if (usable[column] === undefined || column === 'groups') throw error;
      usable[column] = undefined;
      const name = TENSORS[column as keyof RowEvidence] ?? column;
      notes.push(`left out of the verdicts: ${name}: ${argumentProblem(error)}`);
    }
  }
}

function meanOf(values: Uint8Array): number | undefined {
  if (values.length === 0) return undefined;
  return values.reduce((total, value) => total + (value ? 1 : 0), 0) / values.length;
}
