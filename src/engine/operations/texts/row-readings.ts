// Builds the token-by-token readings of a few rows of a step from what native code returns.
import type { NativeRowReading } from '../../native.js';
import type { TextRows } from './text-rows.js';

/** One row, token by token: how specific each token is to the row's prompt (docs/reference/text-figures.md). */
export interface RowReading {
  /** Its place among the rows that were given. */
  readonly row: number;
  /** Specificity of the whole row: S under its own prompt less the mean of S over the others, nats a feature. */
  readonly specificity: number;
  /** Tokens of the whole row. */
  readonly tokens: number;
  /** [n] of the first n tokens: each one's part of S under the own prompt less the mean over the others, nats. */
  readonly nats: Float64Array;
  /**
   * [2n] where each begins and ends: places in the string, or in the bytes where the text came as bytes. Undefined of
   * token ids.
   */
  readonly places: Uint32Array | undefined;
}

/** @param kept place among the given rows of each that native code had */
export function rowReadingsFrom(
  native: readonly NativeRowReading[],
  { texts }: TextRows,
  kept: readonly number[],
): RowReading[] {
  return native.map(({ row: number, specificity, tokens, nats, places }) => {
    const row = kept[number] as number;
    const text = texts?.[row];
    if (text === undefined) return { row, specificity, tokens, nats, places: undefined };
    return {
      row,
      specificity,
      tokens,
      nats,
      places: typeof text === 'string' ? placesInString(text, places) : new Uint32Array(places),
    };
  });
}

/** Converts places in UTF-8 to places in the string that it was made from; both rise. */
export function placesInString(text: string, places: Float64Array | Uint32Array): Uint32Array {
  const found = new Uint32Array(places);
  // ASCII has as many bytes as units.
  if (Buffer.byteLength(text, 'utf8') === text.length) return found;
  let [byte, unit] = [0, 0];
  for (let at = 0; at < found.length; at++) {
    const place = found[at] as number;
    while (byte < place) {
      const character = text.codePointAt(unit) as number;
      byte += character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
      unit += character < 0x10000 ? 1 : 2;
    }
    found[at] = unit;
  }
  return found;
}
