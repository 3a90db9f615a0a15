/**
 * `collapsar/shards`: logs too large for one machine, as shards: plan, map each anywhere, merge, finalize. And
 * statistics of metrics over steps, which merge exactly.
 * @module collapsar/shards
 */
export {
  Aggregates,
  type AggregatesJson,
  type MetricSummary,
  orderFreeMetrics,
} from '../analysis/aggregates/aggregates.js';
export { type FinalizeOptions, finalize as finalizeShards } from '../analysis/shards/finalize.js';
export type { Manifest, PlannedRun, PlannedStep, PlanSettings, Shard } from '../analysis/shards/manifest.js';
export { readManifest } from '../analysis/shards/manifest-reader.js';
export { type MapOptions, type MappedShard, mapShard } from '../analysis/shards/map.js';
export { type MergedStates, type MergeOptions, mergeStates } from '../analysis/shards/merge.js';
export { type PlanOptions, plan as planShards } from '../analysis/shards/plan.js';
export type { RunAggregates } from '../analysis/shards/state-file.js';
