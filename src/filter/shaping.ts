// Finds rewards that the policy should not learn from: variance that comes only from shaping, and rewards that
// were normalised before they came here.
import type { SpreadStatistics } from './group-statistics.js';
import type { GroupIds } from './input/filter-input.js';
import type { Sentence } from './input/sentences.js';

/** Groups named in a warning at most. */
const NAMED_GROUPS = 8;

/**
 * Groups whose rewards vary while all their outcomes are the same. A filter by variance keeps them, and normalised
 * advantages blow the shaping up to full size (verl-recipe#125: EM 0.04 against 0.75 with groups chosen by outcome).
 */
export function variesByShapingAlone(rewards: SpreadStatistics, outcomes: SpreadStatistics): Uint8Array {
  return rewards.constant.map((constant, group) => (constant === 0 && outcomes.constant[group] === 1 ? 1 : 0));
}

/** One sentence about the kept groups (ascending) among them; undefined without any. */
export function shapingWarning(shaped: Uint8Array, kept: Uint32Array, ids: GroupIds): Sentence | undefined {
  const among = kept.filter((group) => shaped[group] === 1);
  if (among.length === 0) return undefined;
  const named = [...among.subarray(0, NAMED_GROUPS)].map((group) => ({ group: ids[group] as number | bigint }));
  const more = among.length > NAMED_GROUPS ? ` and ${among.length - NAMED_GROUPS} more` : '';
  const [verb, what] = among.length === 1 ? ['has', 'group'] : ['have', 'groups'];
  return [
    `${among.length} of ${kept.length} kept groups ${verb} reward variance from shaping alone, their rollouts all having the ` +
      `same outcome (${what} `,
    ...named.flatMap((group, at) => (at === 0 ? [group] : [', ', group])),
    `${more}): dialect "dapo" chooses by outcome`,
  ];
}

/** Fewer groups than this can have mean 0 and std 1 by chance, as balanced rewards of ±1 do. */
const TELLING_GROUPS = 8;
const CLOSE = 1e-3;

/**
 * Advantages in place of rewards: every group that varies has mean 0 and std 1 (TRL#7242), so that variance tells
 * nothing.
 */
export function looksNormalised({ counts, constant, mean, variance }: SpreadStatistics): boolean {
  let telling = 0;
  for (let group = 0; group < counts.length; group++) {
    const size = counts[group] as number;
    if (constant[group] === 1 || size < 3) continue;
    telling++;
    const sample = Math.sqrt(variance[group] as number);
    const population = sample * Math.sqrt((size - 1) / size);
    const isUnit = Math.abs(sample - 1) < CLOSE || Math.abs(population - 1) < CLOSE;
    if (!isUnit || Math.abs(mean[group] as number) > CLOSE) return false;
  }
  return telling >= TELLING_GROUPS;
}

export const NORMALISED_WARNING: Sentence = [
  'every group that varies has mean 0 and standard deviation 1: these look like normalised advantages, whose variance says ' +
    'nothing about the prompt; give the raw rewards',
];
