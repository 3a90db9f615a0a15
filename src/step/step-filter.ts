// A step's rewards -> the filter's choice, and what each episode was given: what buckets and verdicts look at.
import { filterGroupsInWords } from '../filter/filter-groups.js';
import { episodeRewards, type FilterOptions, type FilterResult, type TurnRewards } from '../filter/index.js';
import type { FilterWords } from '../filter/input/filter-words.js';
import type { StepRows } from './step-input.js';

/** Keeps everything: for runs without a filter, whose groups are measured by the same rules. */
const KEEP_ALL: FilterOptions = {
  dialect: 'strict',
  strategy: 'top_k',
  value: 1,
  includeZero: true,
  singletons: 'keep',
};

export interface RewardRules {
  /** Null where everything is kept. */
  readonly filter: FilterOptions | null;
  readonly turnRewards: TurnRewards;
  /** How errors name arguments and options. */
  readonly words: FilterWords;
}

/** @returns undefined for rows without rewards */
export function filterStep(rows: StepRows, { filter, turnRewards, words }: RewardRules): FilterResult | undefined {
  const { rewards: values, groups, episodes, turns, outcomes, correct, entropies, responseLengths: lengths } = rows;
  if (values === undefined) return undefined;
  const input = {
    rewards: { values, groups, episodes, turns: episodes && turns },
    outcomes: outcomes ?? correct,
    entropies,
    lengths,
  };
  return filterGroupsInWords(input, { ...(filter ?? KEEP_ALL), turnRewards }, words);
}

/**
 * What every row's episode was given.
 * @throws {ArgumentError} where the turns of an episode disagree
 */
export function settledRewards(rows: StepRows, rules: RewardRules): ArrayLike<number> | undefined {
  const { rewards } = rows;
  const known = Array.isArray(rewards) ? Float64Array.from(rewards, (reward) => reward ?? Number.NaN) : rewards;
  return settled('rewards', known as ArrayLike<number> | undefined, rows, rules);
}

/** The same of outcomes: verdicts ask first whether a row was right. */
export function settledOutcomes(rows: StepRows, rules: RewardRules): ArrayLike<number> | undefined {
  return settled('outcomes', rows.correct ?? rows.outcomes, rows, rules);
}

function settled(
  name: 'rewards' | 'outcomes',
  values: ArrayLike<number> | undefined,
  { groups, episodes, turns }: StepRows,
  { turnRewards, words }: RewardRules,
): ArrayLike<number> | undefined {
  return episodeRewards({ groups, episodes, turns: episodes && turns, [name]: values }, turnRewards, words)[name];
}
