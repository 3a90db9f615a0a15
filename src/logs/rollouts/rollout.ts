// One sampled response as a log has it, and one step of them as columns.
import type { Rollout, RolloutColumn, StepColumns, TokenLists } from './columns.js';
import type { LoggedText } from './logged-text.js';

/** A row before anyone asks what its texts say. */
export type LoggedRollout = Omit<Rollout, 'prompt' | 'output' | 'reasoning'> & {
  [Column in 'prompt' | 'output' | 'reasoning']?: LoggedText;
};

/** The way in which the groups of a step were found. */
export type GroupSource = 'id' | 'prompt' | 'run length';

/**
 * One training step as a trainer's rollout log has it: R rows in the order of the log, a column absent (undefined)
 * where no row has it. `absent` says why. Within a column, a row that has no value holds undefined, in Float64Arrays
 * NaN.
 */
export interface RolloutStep extends Omit<StepColumns, 'group'> {
  /** Name of the reader: verl, trl, … */
  readonly format: string;
  /** In natural order: rows of an earlier one come first. */
  readonly files: readonly string[];
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  readonly rows: number;
  /** [R] indices into `groupIds`; absent if neither ids, prompts nor a run length show groups. */
  readonly group: Int32Array | undefined;
  /**
   * By first appearance. Decimal for integers, else the id's text; the prompt's text, or its token ids joined by
   * spaces.
   */
  readonly groupIds: readonly string[];
  readonly groupSource: GroupSource | undefined;
  /** Of `tokens`, as `reasoning` is of `output`: the part within its tags, or without tags all of it. */
  readonly reasoningTokens: TokenLists | undefined;
  /** Why a column is absent. */
  readonly absent: Readonly<Partial<Record<RolloutColumn, string>>>;
  /** Remarks for a reader of the figures: biases of the log, and assumptions that were made. */
  readonly notes: readonly string[];
  /** Lines or rows that could not be used: each was given to `onError`. */
  readonly badRows: number;
  /** Rows left out because the same sample had been logged before. */
  readonly repeats: number;
}

/** The same before anyone asks what its responses say. */
export type LoggedColumns = Omit<RolloutStep, 'output' | 'reasoning'> & {
  readonly [Column in 'output' | 'reasoning']: LoggedTexts | undefined;
};

/** A text a row, or its bytes; undefined if the log has none. */
export type LoggedTexts = readonly (LoggedText | undefined)[];
