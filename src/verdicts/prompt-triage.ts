// Prompts whose rewards hardly vary give no gradient. Why they do not decides what helps: too easy, too hard, or a
// reward that cannot tell different behaviour apart (docs/reference/verdicts.md).

import { percent } from '../checks/numbers.js';
import { fields, nullable, number, type Shaped } from '../checks/saved.js';
import type { RolloutGroup } from './evidence/group-outcomes.js';
import type { Finding, VerdictKind } from './verdict.js';

/** Whether a prompt’s rewards carry a learning signal, and why not. */
export type TriageCause =
  | 'varied' // the rewards differ: there is something to learn
  | 'too_easy' // all rollouts succeed
  | 'too_hard' // all fail
  | 'reward_blind' // rollouts did, or achieved, different things for the same reward
  | 'alike' // all did the same for the same reward, neither best nor worst: nothing to compare
  | 'unknown'; // the same reward, and nothing that tells why

/** One prompt of a step: its rewards, and whether they carry a learning signal. */
export interface PromptTriage {
  readonly group: number | bigint;
  readonly cause: TriageCause;
  readonly rewardMean: number;
  /** Standard deviation (ddof 1) of the rewards. */
  readonly rewardStd: number;
  /** Different things that its rollouts did; null if actions are not given. */
  readonly behaviours: number | null;
}

/** Rewards seen so far in the run: without outcomes, the best and the worst stand for success and failure. */
export const rewardRangeShape = fields({ lowest: nullable(number), highest: nullable(number) });
export type RewardRange = Shaped<typeof rewardRangeShape>;

/**
 * A std below this share of the step's mean std is low: the reference stops a run on the same tenth
 * (docs/reference/verdicts.md).
 */
const LOW_SHARE = 0.1;

/**
 * Equal rewards that came out unequal by rounding, relative to the largest (float32 has 6e-8; sixteen of them add up).
 * Whole numbers have no rounding.
 */
const ROUNDING = 1e-6;

/** What the rewards of one prompt's rollouts tell without looking at any other step. */
export interface PromptRewards {
  readonly group: number | bigint;
  readonly rewardMean: number;
  readonly rewardStd: number;
  readonly behaviours: number | null;
  /** The largest |reward|: what rounding is measured by. 0 if all are whole numbers. */
  readonly size: number;
  /** Whether the std is so low that there is nothing to learn. */
  readonly low: boolean;
  /** How many rollouts succeeded; null if outcomes are not given, or not finite. */
  readonly successes: 'all' | 'none' | 'some' | null;
}

/**
 * Groups with fewer than two rollouts, or with a reward (or a variance) that is not finite, say nothing and are left
 * out.
 */
export function promptRewards(groups: readonly RolloutGroup[]): PromptRewards[] {
  const usable = groups.filter(
    ({ rewards }) => rewards.length >= 2 && areFinite(rewards) && Number.isFinite(standardDeviation(rewards) ** 2),
  );
  const stds = usable.map(({ rewards }) => standardDeviation(rewards));
  const meanStd = stds.reduce((total, std) => total + std, 0) / Math.max(1, stds.length);
  return usable.map(({ group, rewards, outcomes, behaviours }, at) => {
    const rewardStd = stds[at] as number;
    const size = rewards.every(Number.isSafeInteger) ? 0 : largest(rewards);
    return {
      group,
      rewardMean: mean(rewards),
      rewardStd,
      behaviours: behaviours === undefined ? null : new Set(behaviours).size,
      size,
      low: rewardStd <= Math.max(LOW_SHARE * meanStd, ROUNDING * size),
      successes: successesOf(outcomes),
    };
  });
}

function successesOf(outcomes: readonly number[] | undefined): PromptRewards['successes'] {
  if (!outcomes?.every(Number.isFinite)) return null;
  // An outcome is a success from the middle of [0, 1] on.
  const successes = outcomes.filter((outcome) => outcome >= 0.5).length;
  if (successes === outcomes.length) return 'all';
  return successes === 0 ? 'none' : 'some';
}

/** @param range of the rewards of the run so far, this step's included */
export function triagePrompts(prompts: readonly PromptRewards[], range: RewardRange): PromptTriage[] {
  return prompts.map((prompt) => {
    const { group, rewardMean, rewardStd, behaviours, low } = prompt;
    return { group, cause: low ? causeOf(prompt, range) : 'varied', rewardMean, rewardStd, behaviours };
  });
}

function causeOf({ successes, rewardMean, behaviours, size }: PromptRewards, range: RewardRange): TriageCause {
  if (successes === 'all') return 'too_easy';
  if (successes === 'none') return 'too_hard';
  if (successes === 'some') return 'reward_blind';
  const { lowest, highest } = range;
  const near = (bound: number | null): boolean => bound !== null && Math.abs(rewardMean - bound) <= ROUNDING * size;
  // One single reward all run long is both best and worst: that says nothing.
  if (lowest !== highest && near(highest)) return 'too_easy';
  if (lowest !== highest && near(lowest)) return 'too_hard';
  if (behaviours === null) return 'unknown';
  return behaviours > 1 ? 'reward_blind' : 'alike';
}

/** The range of a step's finite rewards. */
export function rewardRange(groups: readonly RolloutGroup[]): RewardRange {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  for (const { rewards } of groups) {
    for (let at = 0; at < rewards.length; at++) {
      const reward = rewards[at] as number;
      if (!Number.isFinite(reward)) continue;
      if (reward < lowest) lowest = reward;
      if (reward > highest) highest = reward;
    }
  }
  return lowest > highest ? { lowest: null, highest: null } : { lowest, highest };
}

/** The range of both. */
export function unionRange(a: RewardRange, b: RewardRange): RewardRange {
  const pick = (choose: (x: number, y: number) => number, x: number | null, y: number | null): number | null =>
    x === null || y === null ? (x ?? y) : choose(x, y);
  return { lowest: pick(Math.min, a.lowest, b.lowest), highest: pick(Math.max, a.highest, b.highest) };
}

/** A cause becomes a verdict when it holds for at least this share of the prompts. */
const MOST = 0.5;

const VERDICTS: readonly { cause: TriageCause; kind: VerdictKind; words: string; advice: string }[] = [
  {
    cause: 'too_easy',
    kind: 'prompts_too_easy',
    words: 'all rollouts succeed',
    advice: 'They give no gradient: filter them out, and bring in harder prompts.',
  },
  {
    cause: 'too_hard',
    kind: 'prompts_too_hard',
    words: 'all rollouts fail',
    advice:
      'They give no gradient: bring in easier prompts or intermediate goals, sample more rollouts a prompt, or give ' +
      'partial credit.',
  },
  {
    cause: 'reward_blind',
    kind: 'reward_blind',
    words: 'different behaviour gets the same reward',
    advice:
      'The reward cannot tell the rollouts apart: look at how it is computed before filtering, for the filter would only hide it.',
  },
];

export function triageFindings(step: number, triage: readonly PromptTriage[]): Finding[] {
  return VERDICTS.flatMap(({ cause, kind, words, advice }): Finding[] => {
    const prompts = triage.filter((prompt) => prompt.cause === cause).length;
    if (triage.length === 0 || prompts < MOST * triage.length) return [];
    return [
      {
        kind,
        severity: 'info',
        since: step,
        evidence: { prompts, of: triage.length, share: prompts / triage.length },
        advice,
        now: `it is so for ${prompts} of ${triage.length}`,
        sentence:
          `For ${prompts} of ${triage.length} prompts (${percent(prompts / triage.length)}) ${words}, so that their rewards ` +
          'do not vary.',
      },
    ];
  });
}

function areFinite(values: Float64Array): boolean {
  for (let at = 0; at < values.length; at++) if (!Number.isFinite(values[at])) return false;
  return true;
}

function largest(values: Float64Array): number {
  let most = 0;
  for (let at = 0; at < values.length; at++) most = Math.max(most, Math.abs(values[at] as number));
  return most;
}

function mean(values: Float64Array): number {
  let total = 0;
  for (let at = 0; at < values.length; at++) total += values[at] as number;
  return total / values.length;
}

function standardDeviation(values: Float64Array): number {
  const middle = mean(values);
  let squares = 0;
  for (let at = 0; at < values.length; at++) squares += ((values[at] as number) - middle) ** 2;
  return Math.sqrt(squares / (values.length - 1));
}
