// The rule of `reward_variance_filtering`, as it is proposed to verl, TRL and SkyRL.
import type { FilterSettings } from '../input/filter-options.js';
import { bestGroups, type RankedGroups } from './ranked-groups.js';

/**
 * @param variances [groups] 0 for groups with too few rollouts
 * @param groups those that may be kept at all, ascending
 * @returns kept groups, ascending
 */
export function selectUpstream(
  variances: Float64Array,
  groups: Uint32Array,
  { strategy, value, includeZero, eps }: FilterSettings,
): Uint32Array {
  const total = variances.reduce((sum, variance) => sum + variance, 0);
  const byCount = strategy !== 'top_p';
  if (!(total > 0)) return groups.subarray(0, includeZero ? (byCount ? value : groups.length) : 0);
  if (!byCount && includeZero && value === 1) return groups;
  const candidates = includeZero ? groups : groups.filter((group) => (variances[group] as number) > 0);
  const ranked: RankedGroups = { figures: variances, candidates, direction: 'largest' };
  if (byCount) return bestGroups(ranked, null, value);
  const target = value * total - eps;
  return target > 0 ? bestGroups(ranked, variances, target) : candidates.subarray(0, 0);
}
