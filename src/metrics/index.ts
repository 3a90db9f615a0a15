// The room's public face.

export { crossScoreMetrics } from './cross-score-metrics.js';
export type { CrossScores, MetricOptions } from './cross-scores.js';
export { type MarginalSpread, RunningState, type RunningStateJson } from './running-state.js';
export { effectiveSize, firstTurnRows, type SamplerKind, type SamplerOptions, sampleRows } from './samplers.js';
export type { Certainty, Interval, Profile, SampleLabel, StepMetrics } from './step-metrics.js';
