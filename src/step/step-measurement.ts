// Measurement of one step by itself: steps can be measured anywhere and in any order (run.ts puts them in theirs).
import type { FilterResult } from '../filter/filter-result.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { TextMetrics } from '../metrics/text-metrics.js';
import type { StepReading } from '../verdicts/index.js';
import type { GradientDecomposition } from './outcomes/gradient-decomposition.js';
import type { RewardBucket } from './outcomes/reward-buckets.js';
import type { StepExcerpts } from './prompts/excerpts.js';
import type { GroupName, GroupNames, PromptMeasurement } from './prompts/prompt-measurement.js';

/** What the filter would do with a step, without its arrays. */
export interface FilterView extends Pick<FilterResult, 'empty' | 'warnings' | 'metrics'> {
  readonly kept: readonly GroupName[];
  readonly dropped: readonly { readonly group: GroupName; readonly reason: string }[];
}

/** What only a trainer knows of its rollouts. */
export interface RolloutFindings {
  /** Lengths, entropies and success, under their logged keys. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Of the buckets and their gradients. */
  readonly bucketMetrics: Readonly<Record<string, number>>;
  readonly buckets?: readonly RewardBucket[] | undefined;
  readonly gradients?: GradientDecomposition | undefined;
  /** Of the filter. */
  readonly warnings: readonly string[];
  /** Mean over groups of the in-group reward std. */
  readonly meanRewardStd?: number | undefined;
  /** Of a validation, by task. */
  readonly success?: Readonly<Record<string, number>> | undefined;
}

/**
 * Plain data: arrays, objects, strings, bigints and numbers, NaN and infinities among them. `Filter` is what is kept of
 * the filter's choice: a trainer's has a mask of rows.
 */
export interface StepMeasurement<Filter = FilterView> {
  /**
   * One a sample label: first turns only, or first turns, trajectories and turns; none without cross-scores. Averages
   * are those of a run's first step.
   */
  readonly metrics: readonly StepMetrics[];
  /** Of steps with rollouts. */
  readonly texts?: TextMetrics;
  /** What the step says of each of its prompts (`strict`), where that was asked for. */
  readonly prompts?: PromptMeasurement;
  /** Some of the step's rollouts, to be read: of steps with texts. */
  readonly excerpts?: StepExcerpts;
  /** What the group numbers of `reading.prompts` stand for, where they are none of the file's. */
  readonly groupNames?: GroupNames;
  /** What the judge needs of the step; missing if its values do not allow it: see notes. */
  readonly reading?: StepReading;
  /** In steps with rewards. */
  readonly filter?: Filter;
  /** Where a trainer gave its outcomes. */
  readonly rollouts?: RolloutFindings;
  /** Why reading or filter are missing. */
  readonly notes: readonly string[];
  /** Lines and rows of the step's logs that could not be used; missing if there are none. */
  readonly badRows?: readonly BadRow[];
}

/** A failure that did not cost its step: plain data. */
export interface BadRow {
  readonly file: string;
  readonly problem: string;
  readonly offset?: number;
}
