// What `collapsar` exports of this folder.
export type { Source } from '../checks/abortable-source.js';
export type {
  BucketDecomposition,
  BucketGradients,
  GradientDecomposition,
  GradientNorms,
} from '../step/outcomes/gradient-decomposition.js';
export type { BucketOptions, RewardBucket } from '../step/outcomes/reward-buckets.js';
export type { EarlyStopOptions } from '../verdicts/early-stop/early-stops.js';
export type { EmptyFilterStopOptions } from '../verdicts/early-stop/empty-filter-stop.js';
export type { RewardVarianceStopOptions } from '../verdicts/early-stop/reward-variance-stop.js';
export type { Stop, StopReason } from '../verdicts/early-stop/stop.js';
export type { SuccessStopOptions } from '../verdicts/early-stop/success-stop.js';
export type { ColumnScores, ScoreBlock, WholeScores } from './collected-scores.js';
export { Monitor } from './monitor.js';
export type { MonitorOptions, RunOptions } from './monitor-options.js';
export type { MonitorState } from './monitor-state.js';
export type { MonitorStep, ScoreOptions } from './monitor-step.js';
export type { RowFlags, RowNumbers, RowRewards } from './outcomes/row-values.js';
export type { StepLabels } from './outcomes/step-labels.js';
export type { StepOutcomes } from './outcomes/step-outcomes.js';
export type { MonitorInput } from './report-stream.js';
export type { RolloutRows } from './rollout-texts.js';
export type { WantedPairs } from './wanted-scores.js';
