// Applies the filter to a step's rewards, and gives each episode's reward to buckets and verdicts.
import { filterGroupsAs } from '../filter/filter-groups.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { FilterOptions, TurnRewards } from '../filter/input/filter-options.js';
import type { Spelling } from '../filter/input/sentences.js';
import { episodeRewardsAs } from '../filter/input/turn-rewards.js';
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
  /** Null if everything is kept. */
  readonly filter: FilterOptions | null;
  readonly turnRewards: TurnRewards;
  /** How errors name arguments and options. */
  readonly spelling: Spelling;
}

/** @returns undefined for rows without rewards */
export function filterStep(rows: StepRows, { filter, turnRewards, spelling }: RewardRules): FilterResult | undefined {
  const { rewards: values, groups, episodes, turns, outcomes, correct, entropies, responseLengths: lengths } = rows;
  if (values === undefined) return undefined;
  const input = {
    rewards: { values, groups, episodes, turns: episodes && turns },
    outcomes: outcomes ?? correct,
    entropies,
    lengths,
  };
  return filterGroupsAs(spelling, input, { ...(filter ?? KEEP_ALL), turnRewards });
}

/**
 * What every row's episode was given. Verdicts ask first whether a row was right.
 * @throws {ArgumentError} if the turns of an episode disagree
 */
export function settled(
  name: 'rewards' | 'outcomes',
  { groups, episodes, turns, rewards, correct, outcomes }: StepRows,
  { turnRewards, spelling }: RewardRules,
): ArrayLike<number> | undefined {
  const known = Array.isArray(rewards) ? Float64Array.from(rewards, (reward) => reward ?? Number.NaN) : rewards;
  const values = name === 'rewards' ? (known as ArrayLike<number> | undefined) : (correct ?? outcomes);
  return episodeRewardsAs(spelling, { groups, episodes, turns: episodes && turns, [name]: values }, turnRewards)[name];
}
