// Options with which a caller stops a long operation and follows its progress.

/** Options of every long-running call: how to stop it and hear of its progress. */
export interface OperationOptions {
  /** Aborting rejects the promise with `signal.reason` and frees the engine's threads within about a millisecond. */
  signal?: AbortSignal | undefined;
  /** Called now and then on the JS thread with the share done, 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined;
}
