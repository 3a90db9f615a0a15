import type { OnDevice, ResultOnDevice } from './result-on-device.js';

/** The fields that logitStats can compute. */
export type LogitField = 'logsumexp' | 'entropy' | 'targetLogprob' | 'argmax' | 'rankAbove' | 'rankEqual';

/**
 * One entry a row, in nats, of softmax(logits / temperature); fields that were not asked for are absent.
 * A row with a NaN has NaN everywhere and its first NaN as argmax; one with +inf has log-sum-exp +inf, one of -inf only
 * -inf, and both have NaN as entropy and target log-prob.
 */
export interface LogitStats {
  readonly rows: number;
  readonly columns: number;
  readonly logsumexp?: Float64Array;
  readonly entropy?: Float64Array;
  /** The target's logit / temperature - logsumexp; never above 0. */
  readonly targetLogprob?: Float64Array;
  /** The first NaN, else the lowest column of the maximum. */
  readonly argmax?: Int32Array;
  /** Columns strictly above the target. */
  readonly rankAbove?: Int32Array;
  /** Columns equal to the target, the target included. */
  readonly rankEqual?: Int32Array;
  /** One entry a sequence: the mean over its unmasked rows; NaN if it has none. With `sequences` only. */
  readonly meanEntropy?: Float64Array;
  /** With `sequences` and `targets` only. */
  readonly meanTargetLogprob?: Float64Array;
}

/**
 * LogitStats with fields [rows] on the GPU: float64 in nats, int32 the argmax and the ranks. The means are
 * on the host.
 */
export type DeviceLogitStats = ResultOnDevice & {
  readonly [Field in keyof LogitStats]: Field extends `mean${string}` ? LogitStats[Field] : OnDevice<LogitStats[Field]>;
};
