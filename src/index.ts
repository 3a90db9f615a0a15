/**
 * `collapsar`: what a trainer embeds; what analyses logs is loaded when it is called. Subpaths have the rest:
 * `collapsar/filter`, `collapsar/logs`, `collapsar/sinks`, `collapsar/sampling`, `collapsar/scoring` and
 * `collapsar/engine` (src/exports). Each export is in one of them alone, but for the filter's function.
 * @module collapsar
 */
export type { AnalysisProgress } from './analysis/analysis-progress.js';
export type { AnalyzeOptions } from './analysis/analyze.js';
export type { SourceOptions } from './analysis/measured-source.js';
export type { StepSource } from './analysis/measuring/step-source.js';
export type { MeasuredShard, Shard, ShardOptions } from './analysis/store/shard.js';
export * from './checks/errors.js';
export type { OperationOptions } from './checks/operation-options.js';
export type { EnvironmentLabels, RowEnvironments } from './checks/row-environments.js';
export { Engine } from './engine/engine.js';
export type { EngineInfo } from './engine/engine-info.js';
export { type EngineOptions, openEngine } from './engine/open-engine.js';
export type * from './engine/tensor/tensor.js';
export { filterGroups } from './filter/filter-groups.js';
export type { FilterResult } from './filter/filter-result.js';
export type { FilterOptions } from './filter/input/filter-options.js';
export type { ReadStepsOptions } from './logs/steps/read-steps.js';
export type { LogprobBlock, StepData, StepScores, StoredIntegers } from './logs/steps/step-data.js';
export type {
  RewardArray,
  StepToWrite,
  WriteStepOptions,
  WrittenTensor,
} from './logs/steps/write-step.js';
export type { FileChoiceOptions } from './logs/stores/file-choice.js';
export { crossScoreMetrics } from './metrics/cross-score-metrics.js';
export type { CrossScores, MetricOptions } from './metrics/cross-scores.js';
export type { EnvironmentFigures } from './metrics/environments/environment-figures.js';
export { RunningState, type RunningStateJson } from './metrics/reporting/running-state.js';
export type { SamplerKind, SamplerOptions } from './metrics/sampling/samplers.js';
export type {
  Certainty,
  Interval,
  MarginalSpread,
  PerPrompt,
  PerRow,
  Profile,
  SampleLabel,
  StepMetrics,
  StepSpread,
} from './metrics/step-metrics.js';
export {
  type MeasuredPhrase,
  type TextMetricOptions,
  type TextMetrics,
  type TextStep,
  textMetrics,
} from './metrics/text-metrics.js';
export * from './monitor/index.js';
export type { Sink } from './monitor/sinks/sink.js';
export { analyze, measureShard, readSteps, writeStep } from './on-demand.js';
export type { Excerpt, StepExcerpts } from './step/prompts/excerpts.js';
export type { PromptMatrix, PromptReport } from './step/prompts/prompt-findings.js';
export type { PromptSource } from './step/prompts/prompt-measurement.js';
export type { FilterView } from './step/step-measurement.js';
export type {
  Compared,
  FilterRecord,
  RecordValue,
  RegimeRecord,
  StepRecord,
  TemplateRecord,
} from './step/step-record.js';
export type { StepReport } from './step/step-report.js';
export * from './verdicts/index.js';
