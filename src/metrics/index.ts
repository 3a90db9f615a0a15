// The room's public face.

export { crossScoreMetrics } from './cross-score-metrics.js';
export type { CrossScores, MetricOptions } from './cross-scores.js';
export { RunningState, type RunningStateJson } from './reporting/running-state.js';
export { type ErrorParts, type EstimateOptions, estimateFromPairs, type PairEstimates } from './sampled/estimates.js';
export { completeSums, type PairScores, sumPairTokens } from './sampled/pair-scores.js';
export {
  type Pairs,
  type PlanCost,
  type PromptPairs,
  planScores,
  type ScorePlan,
  type ScorePlanInput,
  type ScorePlanOptions,
} from './sampled/plan.js';
export { turnsOfPrompts } from './sampled/prompt-turns.js';
export {
  type RoundsEnd,
  type RoundsResult,
  type ScoreRound,
  ScoreRounds,
  type ScoreRoundsJson,
  type ScoreRoundsOptions,
} from './sampled/rounds.js';
export {
  effectiveSize,
  firstTurnRows,
  type SamplerKind,
  type SamplerOptions,
  sampleRows,
} from './sampling/samplers.js';
export type {
  Certainty,
  Interval,
  MarginalSpread,
  PerPrompt,
  PerRow,
  Profile,
  SampleLabel,
  StepMetrics,
} from './step-metrics.js';
export {
  type MeasuredPhrase,
  type TextMetricOptions,
  type TextMetrics,
  type TextStep,
  textMetrics,
} from './text-metrics.js';
