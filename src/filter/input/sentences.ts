// Builds sentences about an input in parts: each door (the library, a monitor, the command) fills in its own names of
// columns, rows, groups and options.
import { ArgumentError } from '../../checks/errors.js';

/** Columns with one entry a row. */
export type RowColumn = 'rewards' | 'groups' | 'episodes' | 'turns' | 'outcomes' | 'entropies' | 'lengths';

/** Options that a sentence advises. */
type AdvisedOption = 'nonFinite' | 'singletons' | 'turnRewards' | 'includeZero';

type Part =
  | string
  | { readonly row: number }
  | { readonly group: number | bigint }
  | { readonly reward: number | null | undefined }
  | { readonly column: RowColumn }
  | { readonly option: AdvisedOption };

export type Sentence = readonly Part[];

/** The names of one door; those that are left out are the library's. */
export interface Spelling {
  /** The argument in which a column was given. */
  readonly argument?: ((column: RowColumn) => string) | undefined;
  /** One of labelled rows. */
  readonly row?: ((row: number) => string) | undefined;
  readonly group?: ((id: number | bigint) => string) | undefined;
  /** A reward that is not finite; null and undefined are missing ones. */
  readonly reward?: ((value: number | null | undefined) => string) | undefined;
  /** How to set each option: the words after "with", for `includeZero` before "to leave such groups out". */
  readonly options?: Partial<Readonly<Record<AdvisedOption, string>>> | undefined;
}

const OPTIONS: Readonly<Record<AdvisedOption, string>> = {
  nonFinite: 'nonFinite: "exclude"',
  singletons: 'singletons',
  turnRewards: 'turnRewards',
  includeZero: 'set includeZero to false',
};

/** What is wrong with a column, until the door knows it as an ArgumentError. */
export class RowsProblem extends Error {
  readonly column: RowColumn;
  readonly problem: Sentence;

  constructor(column: RowColumn, ...problem: Sentence) {
    super(`${column}: ${spelt(problem)}`);
    this.column = column;
    this.problem = problem;
  }
}

/** A sentence in the words of a door. */
export function spelt(
  sentence: Sentence,
  { argument = libraryArgument, row, group = String, reward = String, options }: Spelling = {},
): string {
  return sentence
    .map((part) => {
      if (typeof part === 'string') return part;
      if ('row' in part) return row?.(part.row) ?? `row ${part.row}`;
      if ('group' in part) return group(part.group);
      if ('column' in part) return argument(part.column);
      return 'reward' in part ? reward(part.reward) : (options?.[part.option] ?? OPTIONS[part.option]);
    })
    .join('');
}

/** Does `work`. @throws ArgumentError in the door's words for a RowsProblem */
export function atDoor<T>(spelling: Spelling, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RowsProblem)) throw error;
    const { argument = libraryArgument } = spelling;
    throw new ArgumentError(argument(error.column), spelt(error.problem, spelling));
  }
}

function libraryArgument(column: RowColumn): string {
  return column === 'groups' || column === 'episodes' || column === 'turns' ? `rewards.${column}` : column;
}
