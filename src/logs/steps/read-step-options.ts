// Options for reading a step file: what of it, in how much memory.
import { is, type OptionTable } from '../../checks/options.js';

/** How a step file is read: in which blocks, into which memory. */
export interface ReadStepOptions {
  /** Bytes of scores in one block: whole prompts, at least one. Default 64 MiB. */
  blockBytes?: number | undefined;
  /**
   * Memory for scores and per-token tensors, aligned to 8 bytes. Default: a SharedArrayBuffer, which the engine reads
   * in place.
   */
  allocate?: ((bytes: number) => ArrayBufferLike) | undefined;
  /** The content that the file must still have: StepHeader.identity of an earlier look at it. */
  identity?: string | undefined;
  /** Tensors to pass over, as if the file had none; their headers are still checked. Only such as may be missing. */
  unread?: ReadonlySet<OptionalTensor> | undefined;
  /**
   * Bytes that the step may take while it is read and measured, about: one that unpacks to more is refused, and one that is
   * sixteen times its file. Default: what is held of a compressed file at once may have 1 GiB.
   */
  maxMemory?: number | undefined;
  signal?: AbortSignal | undefined;
}

export const READ_STEP_OPTIONS: OptionTable<ReadStepOptions> = {
  blockBytes: is.number('a number of bytes above 0', (bytes) => bytes > 0),
  allocate: is.callback,
  identity: is.any,
  maxMemory: is.integer(1),
  unread: is.any,
  signal: is.signal,
};

/** Large tensors that some readers have no use for. */
export type OptionalTensor = 'response_ids' | 'token_entropy';
