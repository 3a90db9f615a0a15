/**
 * `collapsar`: what a trainer embeds; what analyses logs is loaded when it is called. Subpaths have the rest:
 * `collapsar/filter`, `collapsar/logs`, `collapsar/sinks`, `collapsar/sampling`, `collapsar/scoring` and
 * `collapsar/engine` (src/exports). Each export is in only one of them, except the filter's function. Types are those
 * of calls: what they give and take; of their parts the types need no names.
 * @module collapsar
 */
export type { AnalyzeOptions } from './analysis/analyze.js';
export type { StepSource } from './analysis/measuring/step-source.js';
export type { MeasuredShard, Shard, ShardOptions } from './analysis/store/shard.js';
export * from './checks/errors.js';
export { Engine } from './engine/engine.js';
export type { EngineInfo } from './engine/engine-info.js';
export { type EngineOptions, openEngine } from './engine/open-engine.js';
export type { DType, HostIntegers, HostTensor, Integers, Tensor, TensorData } from './engine/tensor/tensor.js';
export { filterGroups } from './filter/filter-groups.js';
export type { FilterResult } from './filter/filter-result.js';
export type { FilterOptions } from './filter/input/filter-options.js';
export type { ReadStepsOptions } from './logs/steps/read-steps.js';
export type { LogprobBlock, StepData, StepScores } from './logs/steps/step-data.js';
export type { StepToWrite, WriteStepOptions } from './logs/steps/write-step.js';
export { crossScoreMetrics } from './metrics/cross-score-metrics.js';
export type { CrossScores, MetricOptions } from './metrics/cross-scores.js';
export type { EnvironmentFigures } from './metrics/environments/environment-figures.js';
export type { SamplerKind, SamplerOptions } from './metrics/sampling/samplers.js';
export type { Certainty, Interval, Profile, StepMetrics } from './metrics/step-metrics.js';
export {
  type MeasuredPhrase,
  type TextMetricOptions,
  type TextMetrics,
  type TextStep,
  textMetrics,
} from './metrics/text-metrics.js';
export type { ColumnScores, ScoreBlock, WholeScores } from './monitor/collected-scores.js';
export { Monitor } from './monitor/monitor.js';
export type { MonitorOptions } from './monitor/monitor-options.js';
export type { MonitorState } from './monitor/monitor-state.js';
export type { MonitorStep } from './monitor/monitor-step.js';
export type { StepLabels } from './monitor/outcomes/step-labels.js';
export type { StepOutcomes } from './monitor/outcomes/step-outcomes.js';
export type { MonitorInput } from './monitor/report-stream.js';
export type { RolloutRows } from './monitor/rollout-texts.js';
export type { Sink } from './monitor/sinks/sink.js';
export type { WantedPairs } from './monitor/wanted-scores.js';
export { analyze, measureShard, readSteps, writeStep } from './on-demand.js';
export type { BucketGradients, GradientDecomposition } from './step/outcomes/gradient-decomposition.js';
export type { BucketOptions, RewardBucket } from './step/outcomes/reward-buckets.js';
export type { StepExcerpts } from './step/prompts/excerpts.js';
export type { PromptMatrix, PromptReport } from './step/prompts/prompt-findings.js';
export type { StepRecord } from './step/step-record.js';
export type { StepReport } from './step/step-report.js';
export type { EarlyStopOptions } from './verdicts/early-stop/early-stops.js';
export type { Stop } from './verdicts/early-stop/stop.js';
export type { StepEvidence } from './verdicts/evidence/step-evidence.js';
export { Judge, type JudgeJson } from './verdicts/judge.js';
export type { JudgeOptions } from './verdicts/judge-options.js';
export type { Judgement, RegimeReading } from './verdicts/judgement.js';
export type { PromptTriage } from './verdicts/prompt-triage.js';
export type { RunSummary } from './verdicts/run-summary.js';
export type { Regime, Severity, Verdict, VerdictKind } from './verdicts/verdict.js';
export type { RunVerdict } from './verdicts/verdict-log.js';
