// Columns that a log has for each row beside its text, an entry each, with the figures made of it.
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { ValuesOrReasons } from './derived.js';
import type { FigureWords, NamedFigure } from './figure.js';
import { MISMATCH_FIGURES, mismatchOf } from './mismatch.js';
import { asOfScores } from './score-figures.js';

/** One entry a row in each. */
export interface RolloutFigures {
  /** True (or 1) where the row was cut off by the length limit: for `truncated_share`. */
  readonly truncated?: readonly boolean[] | Uint8Array | undefined;
  /**
   * ln p of the sampled tokens under their own prompt, nats: for H(Z|X) at its true value. Undefined if it is not
   * known.
   */
  readonly logprobs?: readonly (ArrayLike<number> | undefined)[] | undefined;
  /** The same as `logprobs` by the trainer's own forward pass, before the update: how far inference is from training. */
  readonly trainerLogprobs?: readonly (ArrayLike<number> | undefined)[] | undefined;
  /** Entropy of the policy, mean over the row's tokens, nats; NaN if it is not known. */
  readonly entropies?: ArrayLike<number> | undefined;
}

interface LogColumn<Values> {
  readonly figures: readonly NamedFigure[];
  /** Why its figures are absent if it is. */
  readonly missing: string;
  /** Of its figures, in their order; a text says why there is none. */
  values(column: Values, beside: RolloutFigures): readonly number[] | string;
}

export const CUT: FigureWords = {
  definition: 'Rows without a token, and rows that the length limit cut.',
  formula: 'such rows / all rows',
  advice: 'Truncated rows that triple go with loops.',
};

const LOG_COLUMNS: { readonly [Name in keyof RolloutFigures]-?: LogColumn<NonNullable<RolloutFigures[Name]>> } = {
  truncated: {
    figures: [{ key: 'truncated_share', words: CUT }],
    missing: 'the log does not say which rows were truncated',
    values: (column) => (column.length === 0 ? NO_ROWS : [truncatedRows(column) / column.length]),
  },
  logprobs: {
    figures: [
      {
        ...asOfScores('conditional_entropy_est'),
        shown: { report: 'entropy', sinks: true, gauge: { name: 'entropy_nats_per_token' } },
      },
      asOfScores('conditional_entropy_seq_est'),
    ],
    missing: 'the log has no log-probs of the sampled tokens',
    values: (column) => {
      const sums = column.flatMap((row) => (row === undefined || row.length === 0 ? [] : [rowSum(row)]));
      const finite = sums.filter(({ sum }) => Number.isFinite(sum));
      if (finite.length === 0) return 'no row has finite log-probs';
      return [meanOf(finite.map(({ sum, tokens }) => -sum / tokens)), meanOf(finite.map(({ sum }) => -sum))];
    },
  },
  trainerLogprobs: {
    figures: MISMATCH_FIGURES,
    missing: 'the log has no log-probs of the trainer',
    values: (column, { logprobs }) =>
      logprobs === undefined ? LOG_COLUMNS.logprobs.missing : mismatchOf(logprobs, column),
  },
  entropies: {
    figures: [
      {
        key: 'token_entropy',
        words: {
          definition: 'Entropy of the policy where it sampled, as the log has it, in nats a token.',
          formula: 'mean over rows of their mean over tokens',
          advice: 'It estimates H(Z|X) as log-probs do.',
        },
      },
    ],
    missing: 'the log has no entropies',
    values: (column) => {
      const known = Array.from(column).filter((entropy) => Number.isFinite(entropy));
      return known.length === 0 ? LOG_COLUMNS.entropies.missing : [meanOf(known)];
    },
  },
};

export const LOG_COLUMN_NAMES = Object.keys(LOG_COLUMNS) as readonly (keyof RolloutFigures)[];

export const LOG_FIGURES = LOG_COLUMN_NAMES.flatMap((name) => LOG_COLUMNS[name].figures);

export const NO_ROWS = 'the step has no rows';

/** What needs no texts. @throws {ArgumentError} for columns that do not fit */
export function logFigures(given: RolloutFigures, rows: number): ValuesOrReasons {
  const values: Record<string, number> = {};
  const absent: Record<string, string> = {};
  for (const name of LOG_COLUMN_NAMES) {
    const column = given[name];
    const { figures, missing, values: valuesOf } = LOG_COLUMNS[name] as LogColumn<typeof column>;
    if (column !== undefined && column.length !== rows) {
      throw new ArgumentError(`step.${name}`, `${column.length} entries for ${rows} rows`);
    }
    const found = column === undefined ? missing : valuesOf(column, given);
    for (const [at, { key }] of figures.entries()) {
      const value = typeof found === 'string' ? found : (found[at] as number);
      if (typeof value === 'string') absent[key] = value;
      else if (Number.isFinite(value)) values[key] = value;
      else absent[key] = 'it is not finite';
    }
  }
  return { values, absent };
}

function rowSum(row: ArrayLike<number>): { sum: number; tokens: number } {
  let sum = 0;
  for (let at = 0; at < row.length; at++) sum += row[at] as number;
  return { sum, tokens: row.length };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function truncatedRows(truncated: readonly boolean[] | Uint8Array): number {
  if (!Array.isArray(truncated) && !(truncated instanceof Uint8Array)) {
    throw new ArgumentError('step.truncated', `got ${shown(truncated)}, expected an array of booleans or a Uint8Array`);
  }
  return (truncated as readonly (boolean | number)[]).reduce<number>((sum, cut) => sum + (cut ? 1 : 0), 0);
}
