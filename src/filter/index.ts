// Exports for other rooms.
export { type FilterGate, filterGate } from './filter-gate.js';
export { filterGroups } from './filter-groups.js';
export type { DroppedGroup, DropReason, FilterResult } from './filter-result.js';
export type {
  FilterInput,
  FlatGroups,
  GroupedRewards,
  GroupedValues,
  GroupIds,
  Ids,
  LabelledRows,
  NumberIds,
  RewardValues,
  RowValues,
} from './input/filter-input.js';
export {
  type FilterDialect,
  type FilterDirection,
  type FilterMetric,
  type FilterOptions,
  type FilterSettings,
  type FilterStrategy,
  type LossScaling,
  resolveFilterOptions,
  type SingletonPolicy,
  type TurnRewards,
} from './input/filter-options.js';
export { episodeRewards, type TurnRows } from './input/turn-rewards.js';
