// The room's public face.
export { Aggregates, type AggregatesJson, type MetricSummary, orderFreeMetrics } from './aggregates/aggregates.js';
export type { AnalysisProgress } from './analysis-progress.js';
export { analysisStream } from './analysis-stream.js';
export { type AnalyzeOptions, analyze } from './analyze.js';
export { textStepOf } from './measuring/rollout-measurement.js';
export type { StepSource } from './measuring/step-source.js';
export type { PromptMatrix, PromptReport } from './prompt-findings.js';
export type { Journal, JournalOptions } from './results/journal.js';
export { type AnalysisSettings, ResultDirectory } from './results/result-directory.js';
export { type FinalizeOptions, finalize as finalizeShards } from './shards/finalize.js';
export type { Manifest, PlanSettings, Shard } from './shards/manifest.js';
export { readManifest } from './shards/manifest-reader.js';
export { type MapOptions, type MappedShard, mapShard } from './shards/map.js';
export { type MergedStates, type MergeOptions, mergeStates } from './shards/merge.js';
export { type PlanOptions, plan as planShards } from './shards/plan.js';
export type { RunAggregates } from './shards/state-file.js';
export type { FilterRecord, RecordValue, RegimeRecord, StepFindings, StepRecord, StepReport } from './step-report.js';
export { type WatchOptions, watch } from './watching/watch.js';
