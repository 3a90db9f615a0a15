// The room's public face.
export { Aggregates, type AggregatesJson, type MetricSummary, orderFreeMetrics } from './aggregates.js';
export type { AnalysisProgress } from './analysis-progress.js';
export { analysisStream } from './analysis-stream.js';
export { type AnalyzeOptions, analyze } from './analyze.js';
export { type FinalizeOptions, finalize as finalizeShards } from './finalize.js';
export type { Journal, JournalOptions } from './journal.js';
export type { Manifest, PlanSettings, Shard } from './manifest.js';
export { readManifest } from './manifest-reader.js';
export { type MapOptions, type MappedShard, mapShard } from './map-shard.js';
export { type MergedStates, type MergeOptions, mergeStates } from './merge.js';
export { type PlanOptions, plan as planShards } from './plan.js';
export { type AnalysisSettings, ResultDirectory } from './result-directory.js';
export type { RunAggregates } from './state-file.js';
export type { FilterRecord, RecordValue, RegimeRecord, StepFindings, StepRecord, StepReport } from './step-report.js';
export type { StepSource } from './step-source.js';
