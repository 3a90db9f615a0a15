// Results of native code's scan of a block: where its lines are, the wanted fields in each, and long
// texts without escapes, as bytes.
import { loadAddon } from '../../../engine/addon.js';

/** As in native/engine/logs/json_lines.h. */
const LINE_INTS = 3;
/** Begin and end of each field's value, and of its text among the texts; −1 if it has none. */
export const PLACE_INTS = 4;

export class ScannedLines {
  readonly count: number;
  readonly #ints: Int32Array;
  readonly #stride: number;
  #hasTexts = false;

  /** @param texts room for as many bytes as there are: long texts go there */
  constructor(
    readonly bytes: Buffer,
    names: readonly string[],
    private readonly texts: Buffer,
  ) {
    this.#ints = loadAddon().jsonLines(bytes, names, texts);
    this.#stride = LINE_INTS + PLACE_INTS * names.length;
    this.count = this.#ints.length / this.#stride;
  }

  /** Where it begins and ends, and whether it was read: unusual lines, and ones that are not JSON objects, were not. */
  line(at: number): { readonly begin: number; readonly end: number; readonly isRead: boolean } {
    const from = at * this.#stride;
    const ints = this.#ints;
    return { begin: ints[from] as number, end: ints[from + 1] as number, isRead: ints[from + 2] === 1 };
  }

  copyPlaces(line: number, places: Int32Array): void {
    const from = line * this.#stride + LINE_INTS;
    for (let at = 0; at < places.length; at++) places[at] = this.#ints[from + at] as number;
  }

  text(begin: number, end: number): Uint8Array {
    this.#hasTexts = true;
    return this.texts.subarray(begin, end);
  }

  /** Whether a text was asked for: then its memory is in use. */
  get hasTexts(): boolean {
    return this.#hasTexts;
  }
}
