/**
 * `collapsar/filter`: only the variance-based filter, which loads a tenth of what `collapsar` does and no native code.
 * @module collapsar/filter
 */
export { filterGroups } from '../filter/filter-groups.js';
export type { DroppedGroup, FilterResult } from '../filter/filter-result.js';
export type { FilterInput } from '../filter/input/filter-input.js';
export type {
  FilterDialect,
  FilterMetric,
  FilterOptions,
  FilterSettings,
  FilterStrategy,
  TurnRewards,
} from '../filter/input/filter-options.js';
export { episodeRewards } from '../filter/input/turn-rewards.js';
