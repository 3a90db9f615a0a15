// Report of one step in its run: the only report that trainers, sinks, pages and files get.
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { TextMetrics } from '../metrics/text-metrics.js';
import type { Stop } from '../verdicts/early-stop/stop.js';
import type { Judgement, RunSummary } from '../verdicts/index.js';
import type { GradientDecomposition } from './outcomes/gradient-decomposition.js';
import type { RewardBucket } from './outcomes/reward-buckets.js';
import type { StepExcerpts } from './prompts/excerpts.js';
import type { PromptMatrix, PromptReport } from './prompts/prompt-findings.js';
import type { FilterView } from './step-measurement.js';
import type { StepRecord } from './step-record.js';

/**
 * One step: metrics, regime, verdicts and what the filter keeps. `Filter` is what is known of the filter's choice: of a
 * monitor a FilterResult, with its mask of rows.
 */
export interface StepReport<Filter = FilterView> {
  readonly run: string;
  readonly step: number;
  /** Whether it has cross-scores, so that `stepMetrics` is there. */
  readonly due: boolean;
  /**
   * Every figure once, as one flat record, under the keys that dashboards know, such as
   * `collapse_first_turn_sample/mi_seq_estimate`; NaN if one is not a number. Pass it to the logger. An analysis
   * with the option `metrics` gives the chosen ones. docs/guide/monitor.md lists the keys.
   */
  readonly metrics: Readonly<Record<string, number>>;
  /**
   * How sure the figures are, under `strict`: ends of 95% intervals, p-values and standard errors, under the keys of the
   * figures with an ending, such as `collapse_first_turn_sample/mi_seq_estimate_batch_low`.
   */
  readonly certainty: Readonly<Record<string, number>>;
  /** Reasons by logged key of metrics that cannot be given (`strict`). */
  readonly absent: Readonly<Record<string, string>>;
  /** What to know before trusting the figures, in words. */
  readonly notes: readonly string[];
  /** Those of `notes` that are about the step itself, and none of its figures: why verdicts or filter are missing. */
  readonly remarks: readonly string[];
  /** The collapse metrics of the first sampler, or of all rows. */
  readonly stepMetrics?: StepMetrics;
  /**
   * The same of every sample label: first turns only, or first turns, trajectories and turns. None without
   * cross-scores.
   */
  readonly samples: readonly StepMetrics[];
  /** What the texts say, in steps with rollouts (docs/reference/text-figures.md). */
  readonly texts?: TextMetrics;
  /** Some of its rollouts, cut to what one reads: in steps with texts (`strict`), where they are asked for. */
  readonly excerpts?: StepExcerpts;
  /** In steps with rewards: which groups to train on. `filter.empty`: none, skip the update. */
  readonly filter?: Filter;
  readonly buckets?: readonly RewardBucket[];
  readonly gradients?: GradientDecomposition;
  /** Regime, verdicts and triage (docs/reference/verdicts.md); missing if the step came twice or out of order. */
  readonly judgement?: Judgement;
  /** One entry a prompt (`strict`), where they are asked for. */
  readonly prompts?: readonly PromptReport[];
  /** Each prompt's rows under every prompt (as `prompts`); missing if there are no figures, or too many prompts. */
  readonly matrix?: PromptMatrix;
  /** The first early-stop rule that says to end the run; `stops` has all that do. */
  readonly stop?: Stop;
  readonly stops: readonly Stop[];
  /** Factor for the loss of the kept rows; 1 without a filter or loss scaling. */
  readonly lossScale: number;
  /** Verdicts of the whole run and correlations with success; call it after the run's last report. */
  readonly summary?: () => RunSummary;
  /** Path of the file, as found; `monitor/step` where a monitor reports. */
  readonly file: string;
  /** Absolute path of the directory whose files are this run; `monitor` where a monitor reports. */
  readonly directory: string;
  /** Size of the file. */
  readonly bytes: number;
  /** file, step, run, and the chosen metrics under their logged keys, as JSON has them. */
  readonly record: StepRecord;
}
