// One sampled response as a log has it, and one step of them as columns.
import type { LoggedText } from './logged-text.js';

/** What one line or row of a log says of one response. What it does not say is absent. */
export interface Rollout {
  step?: number;
  run?: string;
  /** Its number in the step, from 0. */
  row?: number;
  /** Id of the prompt's group: decimal for integers, else its text. */
  group?: string;
  prompt?: string;
  promptTokens?: Int32Array;
  /** What was sampled: of several turns one after the other, tool text left out where the log marks it. */
  output?: string;
  /** Token ids of what was sampled. */
  tokens?: Int32Array;
  /** Where the log itself separates it from the output. */
  reasoning?: string;
  action?: string;
  reward?: number;
  /** Parts that `reward` is the sum of. */
  rewards?: Readonly<Record<string, number>>;
  outcome?: number;
  /** ln p of the tokens in `tokens`, under their own prompt. Nats. */
  logprobs?: Float64Array;
  /** Mean over tokens. Nats. */
  entropy?: number;
  truncated?: boolean;
  /** Tokens sampled. */
  length?: number;
  /** Tells a response from every other of its step; a repeat is the same response logged twice. */
  sample?: string;
  episode?: string;
  /** From 0. */
  turn?: number;
  /** Name of the environment, task or data source that its prompt is of. */
  environment?: string;
}

/** The same before anyone asks what its texts say. */
export type LoggedRollout = Omit<Rollout, 'prompt' | 'output' | 'reasoning'> & {
  [Column in 'prompt' | 'output' | 'reasoning']?: LoggedText;
};

/** A column that a rollout log may have. */
export type RolloutColumn = keyof Rollout;

/** What every column is, for the reasons of absent ones: `the log has no ${…}`. */
export const ROLLOUT_COLUMNS: Readonly<Record<RolloutColumn, string>> = {
  step: 'step',
  run: 'name of the run',
  row: 'row number',
  group: 'group id',
  prompt: 'text of the prompt',
  promptTokens: 'token ids of the prompt',
  output: 'text of the response',
  tokens: 'token ids of the response',
  reasoning: 'reasoning apart from the response',
  action: 'action',
  reward: 'reward',
  rewards: 'parts of the reward',
  outcome: 'outcome beside the reward',
  logprobs: 'log-probs of the sampled tokens',
  entropy: 'entropy',
  truncated: 'mark of truncated responses',
  length: 'count of tokens',
  sample: 'sample id',
  episode: 'episode',
  turn: 'turn',
  environment: 'environment',
};

/** Which of the ways to tell the groups of a step was used. */
export type GroupSource = 'id' | 'prompt' | 'run length';

/**
 * One training step as a trainer's rollout log has it: R rows in the order of the log, a column absent (undefined)
 * where no row has it. `absent` says why. Within a column, a row that has no value holds undefined, in Float64Arrays
 * NaN.
 */
export interface RolloutStep {
  /** Name of the reader: verl, trl, … */
  readonly format: string;
  /** In natural order: rows of an earlier one come first. */
  readonly files: readonly string[];
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  readonly rows: number;
  /** [R] the log's own numbers of its rows. */
  readonly row: Float64Array | undefined;
  /** [R] indices into `groupIds`; absent where neither ids, prompts nor a run length tell groups. */
  readonly group: Int32Array | undefined;
  /**
   * By first appearance. Decimal for integers, else the id's text; the prompt's text, or its token ids joined by
   * spaces.
   */
  readonly groupIds: readonly string[];
  readonly groupSource: GroupSource | undefined;
  readonly prompt: Texts | undefined;
  readonly promptTokens: TokenLists | undefined;
  /** Made of the log's bytes when it is first read, as `reasoning` is. */
  readonly output: Texts | undefined;
  readonly tokens: TokenLists | undefined;
  /** Of the output, what stands in its reasoning tags (rollouts without tags: all of it). */
  readonly reasoning: Texts | undefined;
  readonly reasoningTokens: TokenLists | undefined;
  /** What follows the reasoning; absent where there was no tag. */
  readonly action: Texts | undefined;
  /** [R] */
  readonly reward: Float64Array | undefined;
  /** Parts of the reward by name, each [R]. */
  readonly rewards: Readonly<Record<string, Float64Array>> | undefined;
  readonly outcome: Float64Array | undefined;
  /** Of each row, ln p of the tokens in `tokens`; nats. */
  readonly logprobs: readonly (Float64Array | undefined)[] | undefined;
  /** [R] mean over the row's tokens; nats. */
  readonly entropy: Float64Array | undefined;
  /** [R] tokens sampled. */
  readonly length: Float64Array | undefined;
  /** [R] 1: cut by a limit, or its reasoning was never closed; 0: neither, or the log does not say. */
  readonly truncated: Uint8Array | undefined;
  readonly sample: Texts | undefined;
  readonly episode: Texts | undefined;
  /** [R] */
  readonly turn: Float64Array | undefined;
  /** Of each row's prompt, which has one in a step; undefined where the log names none for it. */
  readonly environment: Texts | undefined;
  /** Why a column is absent. */
  readonly absent: Readonly<Partial<Record<RolloutColumn, string>>>;
  /** What whoever reads the figures should know: biases of the log, what had to be assumed. */
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

/** A text a row, or its bytes; undefined where the log has none. */
export type LoggedTexts = readonly (LoggedText | undefined)[];
/** A text a row; undefined where the log has none. */
export type Texts = readonly (string | undefined)[];
/** Token ids a row; undefined where the log has none. */
export type TokenLists = readonly (Int32Array | undefined)[];
