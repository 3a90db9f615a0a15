// Selects the rows of a step that are independent draws given their prompt: text figures are made of these.

/** One entry a row, [R]. */
export interface TurnLabels {
  readonly rows: number;
  /** Ids that distinguish groups; undefined if there are none. */
  readonly groups: ArrayLike<unknown> | undefined;
  readonly episodes: ArrayLike<unknown> | undefined;
  /** NaN if a row has none. */
  readonly turns: ArrayLike<number | bigint> | undefined;
}

/**
 * Of every episode the rows of its lowest turn; where turns are of no episode, those of the group's lowest turn. A row
 * without a turn is a response by itself.
 * @returns rising row numbers
 */
export function firstTurns({ rows, groups, episodes, turns }: TurnLabels): number[] {
  const all = Array.from({ length: rows }, (_, row) => row);
  if (turns === undefined) return all;
  const keyOf = (row: number): string => `${groups?.[row]}\n${episodes?.[row] ?? ''}`;
  const first = new Map<string, number | bigint>();
  for (const row of all) {
    const now = turns[row] as number | bigint;
    const least = first.get(keyOf(row));
    if (!isNone(now) && (least === undefined || now < least)) first.set(keyOf(row), now);
  }
  return all.filter((row) => {
    const now = turns[row] as number | bigint;
    return isNone(now) || now === first.get(keyOf(row));
  });
}

const isNone = (turn: number | bigint): boolean => typeof turn === 'number' && Number.isNaN(turn);
