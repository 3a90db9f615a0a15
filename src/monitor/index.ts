// The room's public face.
export type { Source } from './closing-source.js';
export type { ColumnScores, ScoreBlock, WholeScores } from './collected-scores.js';
export type { EarlyStopOptions } from './early-stop/early-stops.js';
export type { EmptyFilterStopOptions } from './early-stop/empty-filter-stop.js';
export type { RewardVarianceStopOptions } from './early-stop/reward-variance-stop.js';
export type { Stop, StopReason } from './early-stop/stop.js';
export type { SuccessStopOptions } from './early-stop/success-stop.js';
export type {
  BucketDecomposition,
  BucketGradients,
  GradientDecomposition,
  GradientNorms,
} from './gradient-decomposition.js';
export { Monitor } from './monitor.js';
export type { MonitorOptions, RunOptions } from './monitor-options.js';
export type { MonitorReport } from './monitor-report.js';
export type { MonitorState } from './monitor-state.js';
export type { MonitorStep, ScoreOptions } from './monitor-step.js';
export type { MonitorInput } from './report-stream.js';
export type { BucketOptions, RewardBucket } from './reward-buckets.js';
export type { RowFlags, RowNumbers } from './row-values.js';
export type { StepLabels } from './step-labels.js';
export type { StepOutcomes } from './step-outcomes.js';
export type { WantedPairs } from './wanted-scores.js';
