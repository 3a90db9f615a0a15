// A step that is open, in any file or store.
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';
import type { TensorEntry } from './safetensors.js';

/** An open step: close `source` when done. */
export interface StepContainer {
  /** Where the entries lie: their `begin`, `end` and `declaredAt` are positions in it. */
  readonly source: ByteSource;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
  /** Bytes of the step as they are read, decompressed where the file is compressed. */
  readonly bytes: number;
  /** The same as they lie there. */
  readonly storedBytes: number;
  /** Digest of the bytes that say what lies where. */
  readonly digest: string;
  /**
   * Where the header begins in which a tensor that is not there is missing; arrays of numpy have one each, and none for
   * all.
   */
  readonly headerAt?: number;
  /** Where they were read with the header: the first bytes of `source`, the whole of a small file. */
  readonly first?: Uint8Array;
  /** Opens `source` once more. @throws FileError when the content may have changed since */
  reopen(): Promise<ByteSource>;
}

export type OpenContainer = (path: string, options: ReadOptions) => Promise<StepContainer>;
