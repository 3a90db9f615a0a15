// Metrics of one step: flat numbers under the reference's names, and what each of them rests on.
import { is } from '../checks/options.js';
import type { OverPrompts } from '../engine/operations/infer-step.js';
import type { PromptMatrices } from '../engine/operations/prompt-matrices.js';
import type { EnvironmentFigures } from './environments/environment-figures.js';

/** `strict`: the reference's defects repaired, with intervals; `ragen`: the reference's numbers, key for key. */
export type Profile = 'strict' | 'ragen';

/** As an option. */
export const PROFILE = is.oneOf(['strict', 'ragen']);

/** Which (trajectory, turn) pairs a set of metrics was computed on; also the prefix of its logged keys. */
export type SampleLabel = 'collapse_first_turn_sample' | 'collapse_trajectory_sample' | 'collapse_turn_sample';

/** A 95% interval, or the reason why there is none. */
export type Interval =
  | { readonly low: number; readonly high: number; readonly error: number }
  | { readonly absent: string };

/** Standard deviation of the marginal log-probs over rows, nats: what z-scores divide by. */
export interface MarginalSpread {
  /** The deviation of per-token marginals. */
  readonly std: number;
  /** The deviation of sequence marginals. */
  readonly stdSeq: number;
}

/**
 * How sure one figure is. Estimands: `batch` for these very prompts, `population` for prompts drawn like these
 * (docs/reference/intervals.md).
 */
export interface Certainty {
  readonly batch: Interval;
  readonly population: Interval;
  /** Permutation p-value against "Z ignores X", or the reason why there is none. */
  readonly pValue: number | { readonly absent: string };
  /** What steps are compared by: only of `mi_seq_estimate` and `mi_seq_at_<k>`, with at least three different prompts. */
  readonly overPrompts?: OverPrompts;
}

/** One value a row that the metrics are means over. */
export interface PerRow {
  /** Index of each row in the step. A sampler that draws with replacement may name one more than once. */
  readonly row: Int32Array;
  /** log p(z|x) under the row's own prompt, summed over tokens, nats. */
  readonly matched: Float64Array;
  /** 1 if the best prompt is the row's own or an equivalent one. */
  readonly retrieved: Uint8Array;
}

/** One value a prompt among which the metrics were asked: the columns that were measured, once each. */
export interface PerPrompt extends PromptMatrices {
  /** Column of the scores that each prompt is. */
  readonly column: Int32Array;
}

/** What the moving averages and the z-scores against them are made of. */
export interface StepSpread {
  /** Standard deviation over rows of the marginals. */
  readonly current: MarginalSpread;
  /** Mean over rows of matched − marginal, nats a token and nats a response. */
  readonly excess: { readonly token: number; readonly seq: number };
  /** Smallest spread that a z-score is measured against; 0 under `ragen`. */
  readonly floor: MarginalSpread;
}

/** One step's metrics, in nats, each with how sure it is. */
export interface StepMetrics {
  readonly profile: Profile;
  readonly label: SampleLabel;
  /** Metric by unprefixed key, such as `mi_seq_estimate`. docs/reference/metrics.md lists every key. */
  readonly values: Readonly<Record<string, number>>;
  /** Reasons by key of metrics that cannot be given. Every key is in `values` or here. */
  readonly absent: Readonly<Record<string, string>>;
  /** strict: interval and p-value by key, for MI and retrieval figures. Empty under `ragen`. */
  readonly certainty: Readonly<Record<string, Certainty>>;
  /** Things a reader must know before trusting the figures, in words. */
  readonly notes: readonly string[];
  readonly rows: {
    readonly total: number;
    /** Rows that the metrics are means over. */
    readonly used: number;
    readonly zeroLength: number;
    /** Indices of rows left out because a score of theirs is NaN or infinite (strict). */
    readonly nonFinite: readonly number[];
    /**
     * Indices of rows left out because their score is the same to the bit under every one of at least two prompts, as
     * placeholders are (strict). Missing if there are none.
     */
    readonly placeholders?: readonly number[];
  };
  /** Only if the option `perRow` asked for it, and there are metrics. */
  readonly perRow?: PerRow;
  /** Only if the option `perPrompt` asked for it, and there are metrics (strict). */
  readonly perPrompt?: PerPrompt;
  readonly columns: { readonly total: number; readonly distinct: number };
  /** What each environment shows by itself, where rows are named any (strict). */
  readonly environments?: readonly EnvironmentFigures<StepMetrics>[];
  /** Missing if there are no metrics, or if only some pairs were scored. */
  readonly spread?: StepSpread;
  /** Everything as one flat record under the logged keys (`<label>/<key>`, `collapse/first_turn_num_total`, …). */
  readonly logged: Readonly<Record<string, number>>;
}
