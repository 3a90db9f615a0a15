// How the filter's remarks and errors name groups, rows, arguments and options: as the caller of the library, of a
// monitor or of the command knows them.

/** Columns with one entry a row. */
export type RowColumn = 'rewards' | 'groups' | 'episodes' | 'turns' | 'outcomes' | 'entropies' | 'lengths';

export interface FilterWords {
  /** The argument in which a column was given. */
  argument(column: RowColumn): string;
  /** @param id as the input has it; the index where groups have no ids */
  group(id: number | bigint): string;
  /** One of labelled rows; those of a matrix are named by group and rollout. */
  row(row: number): string;
  /** A reward that is not finite, as the caller wrote it; null and undefined are missing ones. */
  reward(value: number | null | undefined, row: number): string;
  /** How an option is given. */
  readonly options: {
    /** Stands after "with". */
    readonly excludeNonFinite: string;
    /** Stand after "say with". */
    readonly singletons: string;
    readonly turnRewards: string;
    /** Stands before "to leave such groups out". */
    readonly leaveOutZero: string;
  };
}

export const LIBRARY_WORDS: FilterWords = {
  argument: (column) =>
    column === 'groups' || column === 'episodes' || column === 'turns' ? `rewards.${column}` : column,
  group: String,
  row: (row) => `row ${row}`,
  reward: String,
  options: {
    excludeNonFinite: 'nonFinite: "exclude"',
    singletons: 'singletons',
    turnRewards: 'turnRewards',
    leaveOutZero: 'set includeZero to false',
  },
};
