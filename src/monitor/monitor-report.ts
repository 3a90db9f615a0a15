// What the monitor gives back for one step: plain data, ready for a logger or JSON.
import type { FilterResult } from '../filter/index.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { TextMetrics } from '../metrics/text-metrics.js';
import type { Stop } from '../verdicts/early-stop/stop.js';
import type { Judgement } from '../verdicts/index.js';
import type { GradientDecomposition } from './outcomes/gradient-decomposition.js';
import type { RewardBucket } from './outcomes/reward-buckets.js';

/** What a finished step gave: plain data. docs/guide/monitor.md lists the keys of `metrics`. */
export interface MonitorReport {
  readonly step: number;
  /** Whether cross-scores were due, so that `stepMetrics` is there. */
  readonly due: boolean;
  /** Every figure of the step as one flat record, under the keys that dashboards know. Pass it to the logger. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Logged key -> why this metric cannot be given (strict). */
  readonly absent: Readonly<Record<string, string>>;
  /** What to know before trusting the figures, in words. */
  readonly notes: readonly string[];
  /** The collapse metrics of the first sampler, or of all rows. */
  readonly stepMetrics?: StepMetrics;
  /** The same of every sampler, where there are several. */
  readonly samples?: readonly StepMetrics[];
  /** What the texts say, where `step.rollouts()` was given them. */
  readonly texts?: TextMetrics;
  /** Which groups to train on. `filter.empty`: none, skip the update. */
  readonly filter?: FilterResult;
  readonly buckets?: readonly RewardBucket[];
  readonly gradients?: GradientDecomposition;
  /** Regime and verdicts. */
  readonly judgement?: Judgement;
  /** The first early-stop rule that says to end the run; `stops` has all that do. */
  readonly stop?: Stop;
  readonly stops: readonly Stop[];
  /** Factor for the loss of the kept rows; 1 without a filter or loss scaling. */
  readonly lossScale: number;
}
