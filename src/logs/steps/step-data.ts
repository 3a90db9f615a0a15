// One training step as it comes out of a log of any format (step-file.md).
import type { RowEnvironments } from '../../checks/row-environments.js';
import type { FileScores } from '../../engine/operations/sum-file-tokens.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';

/** Integer columns arrive widened to 64 bits only if the file has 64. */
export type StoredIntegers = Int32Array | BigInt64Array;

/** A block of consecutive prompts: logprobs [count, R, T], valid until the next block is asked for. */
export interface LogprobBlock {
  readonly firstPrompt: number;
  readonly logprobs: HostTensor;
}

/** Scores of a step: of tokens, still on disk until `blocks()` reads them, or sums, which are in memory. In nats. */
export type StepScores =
  | {
      readonly kind: 'logprobs';
      readonly dtype: HostTensor['dtype'];
      /** [P, R, T] */
      readonly shape: readonly [number, number, number];
      /** Reads the scores once, block by block, in constant memory. */
      blocks(signal?: AbortSignal): AsyncIterable<LogprobBlock>;
      /**
       * Present if the scores are uncompressed in a local file: calls `use` with that file while it is open, for
       * operations that read it themselves. @throws FileError when it cannot be read, or changes meanwhile
       */
      inFile?<T>(use: (scores: FileScores) => Promise<T>): Promise<T>;
      /** Byte offset in the file of element (p, r, t), to name a bad value. */
      offsetOf(prompt: number, row: number, token: number): number;
    }
  | {
      readonly kind: 'sums';
      readonly dtype: HostTensor['dtype'];
      /** [R, P] */
      readonly shape: readonly [number, number];
      read(signal?: AbortSignal): Promise<HostTensor>;
      offsetOf(row: number, column: number): number;
    };

/** One step as its log holds it: R rows, P columns; nats. docs/reference/step-file.md has every tensor. */
export interface StepData {
  /** Path of the file, as found. */
  readonly file: string;
  readonly step: number;
  /** `run` of the metadata, else the name of the folder; `readSteps` also uses the folders around that. */
  readonly run: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly scores: StepScores;
  readonly lengths: StoredIntegers;
  /** Group id of each row. */
  readonly group: StoredIntegers;
  /** Group id of each column; the sorted distinct ids of `group` where the file has none. */
  readonly columnGroup: StoredIntegers;
  /** Prompt token ids of each column, if given: shows equivalent columns. */
  readonly prompts: readonly (Int32Array | BigInt64Array)[] | undefined;
  /** Environments of the rows, where any is named: a prompt has one. */
  readonly environments?: RowEnvironments | undefined;
  readonly rewards: Float64Array | undefined;
  readonly outcome: Float64Array | undefined;
  /** Which of these were stored in 32 bits or fewer of floating point, so that their rounding is that of float32. */
  readonly float32?: readonly ('rewards' | 'outcome')[] | undefined;
  readonly correct: Uint8Array | undefined;
  readonly valid: Uint8Array | undefined;
  readonly actions: StoredIntegers | undefined;
  readonly episode: StoredIntegers | undefined;
  readonly turn: StoredIntegers | undefined;
  readonly responseIds: { readonly data: StoredIntegers; readonly shape: readonly [number, number] } | undefined;
  readonly tokenEntropy: HostTensor | undefined;
  readonly ablatedLogprobs: HostTensor | undefined;
  readonly actionLogprobs: HostTensor | undefined;
}
