// Settings for reading an object: the size of requests, and how long to wait for a store.
import { RETRY_LIMITS, type RetryLimits } from './retry.js';

export interface S3Settings extends RetryLimits {
  /** Bytes of one request. Default 8 MiB. */
  readonly partBytes: number;
}

export const S3_SETTINGS: S3Settings = { ...RETRY_LIMITS, partBytes: 8 * 2 ** 20 };

/** Small reads are answered from windows of this size: headers and their neighbours come in one request. */
export const WINDOW_BYTES = 64 * 2 ** 10;
