// Columns of a rollout, an entry each: from them follow by type what a row and a step hold, our own files, what can be
// mapped, and columns beside texts.

/** What a row holds, by the kind of its column. */
export interface RowValues {
  /** `text` as it is written, `said` by the policy, `prompt` text or a chat. */
  text: string;
  said: string;
  prompt: string;
  /** Digits of integers, else text. */
  id: string;
  /** Also an object with a name, or a list of names. */
  name: string;
  /** 0 or more. */
  count: number;
  number: number;
  /** Or true and false. */
  outcome: number;
  /** Or one a token, of which the mean counts. */
  mean: number;
  flag: boolean;
  tokens: Int32Array;
  numbers: Float64Array;
  parts: Readonly<Record<string, number>>;
}

/** A text a row; undefined if the log has none. */
export type Texts = readonly (string | undefined)[];
/** Token ids a row; undefined if the log has none. */
export type TokenLists = readonly (Int32Array | undefined)[];

/** What a step holds, [R]. */
interface StepValues {
  text: Texts;
  said: Texts;
  prompt: Texts;
  id: Texts;
  name: Texts;
  count: Float64Array;
  number: Float64Array;
  outcome: Float64Array;
  mean: Float64Array;
  flag: Uint8Array;
  tokens: TokenLists;
  numbers: readonly (Float64Array | undefined)[];
  parts: Readonly<Record<string, Float64Array>>;
}

interface ColumnEntry {
  readonly kind: keyof RowValues;
  /** For the reasons of absent ones (`the log has no …`) and the guide. */
  readonly words: string;
  /** Its name in our own files, and what a column of anyone's is mapped to. */
  readonly own?: string;
  /** For the guide. */
  readonly note?: string;
  /** Its name beside texts, where figures are made of it (metrics/figures/log-columns.ts). */
  readonly beside?: string;
}

export const COLUMNS = {
  step: { kind: 'count', words: 'step', own: 'step' },
  run: { kind: 'id', words: 'name of the run', own: 'run' },
  /** Its number in the step, from 0. */
  row: { kind: 'count', words: 'row number' },
  /** Id of the prompt's group: decimal for integers, else its text. */
  group: { kind: 'id', words: 'group id', own: 'group' },
  /** Identifies a response in its step; a repeat is the same response logged twice. */
  sample: { kind: 'id', words: 'sample id', own: 'sample' },
  prompt: { kind: 'prompt', words: 'text of the prompt', own: 'prompt', note: 'text or a chat' },
  promptTokens: { kind: 'tokens', words: 'token ids of the prompt', own: 'prompt_tokens', note: 'instead of `prompt`' },
  /** What was sampled: of several turns one after the other, tool text left out if the log marks it. */
  output: { kind: 'said', words: 'text of the response', own: 'output', note: 'text or a chat' },
  /** Token ids of what was sampled. */
  tokens: { kind: 'tokens', words: 'token ids of the response', own: 'tokens', note: 'instead of `output`' },
  /** If the log itself separates it from the output. */
  reasoning: { kind: 'text', words: 'reasoning apart from the response', own: 'reasoning' },
  action: { kind: 'id', words: 'action', own: 'action' },
  reward: { kind: 'outcome', words: 'reward', own: 'reward' },
  /** Parts that `reward` is the sum of. */
  rewards: { kind: 'parts', words: 'parts of the reward' },
  outcome: { kind: 'outcome', words: 'outcome beside the reward', own: 'outcome' },
  episode: { kind: 'id', words: 'episode', own: 'episode' },
  /** From 0. */
  turn: { kind: 'count', words: 'turn', own: 'turn', note: 'of the episode, from 0' },
  /** Mean over the row's tokens, as the trainer used it. */
  advantage: { kind: 'mean', words: 'advantage', own: 'advantage', note: 'one number or one a token' },
  /** Share of the sampled tokens that the trainer left out of its loss. */
  masked: {
    kind: 'mean',
    words: 'share of tokens left out of the loss',
    own: 'masked',
    note: 'one number or one a token',
  },
  /** Of each row, ln p of the tokens in `tokens` under their own prompt; nats. */
  logprobs: {
    kind: 'numbers',
    words: 'log-probs of the sampled tokens',
    own: 'logprobs',
    note: 'nats, one a token of `tokens`',
    beside: 'logprobs',
  },
  /** The same by the trainer's own forward pass, before the step's update. */
  trainerLogprobs: {
    kind: 'numbers',
    words: 'log-probs of the sampled tokens by the trainer',
    own: 'trainer_logprobs',
    note: 'nats, one a token of `tokens`, before the update',
    beside: 'trainerLogprobs',
  },
  /** Mean over the row's tokens; nats. */
  entropy: {
    kind: 'mean',
    words: 'entropy',
    own: 'entropy',
    note: 'nats, one number or one a token',
    beside: 'entropies',
  },
  /** Of a step 1: cut by a limit, or its reasoning was never closed; 0: neither, or the log does not say. */
  truncated: { kind: 'flag', words: 'mark of truncated responses', own: 'truncated', beside: 'truncated' },
  /** Tokens sampled. */
  length: { kind: 'count', words: 'count of tokens', own: 'length', note: 'else that of `tokens`' },
  /** Name of the environment, task or data source that its prompt is of. */
  environment: { kind: 'name', words: 'environment', own: 'environment' },
} as const satisfies Readonly<Record<string, ColumnEntry>>;

type Columns = typeof COLUMNS;

/** A column that a rollout log may have. */
export type RolloutColumn = keyof Columns;

export const COLUMN_NAMES = Object.keys(COLUMNS) as readonly RolloutColumn[];

/** What one line or row of a log says of one response. What it does not say is absent. */
export type Rollout = { -readonly [Column in RolloutColumn]?: RowValues[Columns[Column]['kind']] };

/** The columns of a step as they come from its rows; undefined if no row has one. */
export type StepColumns = {
  readonly [Column in Exclude<RolloutColumn, 'step' | 'run'>]: StepValues[Columns[Column]['kind']] | undefined;
};

type Named<Key extends keyof ColumnEntry> = {
  [Column in RolloutColumn as Columns[Column] extends Readonly<Record<Key, infer Name extends string>>
    ? Name
    : never]: Column;
};

/** A column of our own rollout logs. */
export type OwnColumn = keyof Named<'own'>;

/** Columns of a rollouts file, and what they may be mapped to. */
export const OWN_COLUMNS = COLUMN_NAMES.flatMap((name) => ownName(name) ?? []);

/** Undefined for a column that our own files have not. */
export function ownName(name: RolloutColumn): OwnColumn | undefined {
  return (COLUMNS[name] as ColumnEntry).own as OwnColumn | undefined;
}

/** Columns of a step beside its texts. */
export type ColumnsBeside<Step> = {
  readonly [Name in keyof Named<'beside'>]: Named<'beside'>[Name] extends keyof Step
    ? Step[Named<'beside'>[Name]]
    : never;
};

export function columnsBeside<Step extends object>(step: Step): ColumnsBeside<Step> {
  const found = Object.entries<ColumnEntry>(COLUMNS).flatMap(([name, { beside }]) =>
    beside === undefined ? [] : [[beside, step[name as keyof Step]] as const],
  );
  return Object.fromEntries(found) as ColumnsBeside<Step>;
}
