// Turns JSON that is not in lines (one list of values, or values over several lines) into lines of one value each.
// Every byte keeps its place: separators become line ends, line ends within a value become spaces.

/** Layout of values in a file: a line each, over several lines each, or in one list. */
export type JsonShape = 'lines' | 'values' | 'list';

const [QUOTE, BACKSLASH, COMMA, LINE_END, SPACE] = [0x22, 0x5c, 0x2c, 0x0a, 0x20];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf];

/** Bytes of a file's beginning that show its shape. */
export const SHAPE_BYTES = 2 ** 12;

/** Looks at the first line: a list that opens, or an object that continues in a second line. */
export function jsonShape(head: Buffer): JsonShape {
  const first = head.findIndex((byte) => byte > SPACE && !BYTE_ORDER_MARK.includes(byte));
  if (head[first] === OPEN_LIST) return 'list';
  if (head[first] !== OPEN_OBJECT) return 'lines';
  const end = head.indexOf(LINE_END, first);
  const next = head.findIndex((byte, at) => at > end && byte > SPACE);
  if (end < 0 || next < 0) return 'lines';
  const lines = new ValueLines('values');
  const line = Buffer.from(head.subarray(first, end + 1));
  lines.take(line);
  // A line that begins with an object after one that is not closed is of a log with a damaged line.
  const isNewRow = head[next] === OPEN_OBJECT && head[next - 1] === LINE_END;
  return line.at(-1) === LINE_END || isNewRow ? 'lines' : 'values';
}

export class ValueLines {
  #depth: number;
  #inString = false;
  #isEscaped = false;
  /** A value beside the list. */
  #isBare = false;
  /** Brackets around each value. */
  readonly #outer: number;

  /** @param isInside bytes begin with a value of the list */
  constructor(shape: Exclude<JsonShape, 'lines'>, isInside = false) {
    this.#outer = shape === 'list' ? 1 : 0;
    this.#depth = isInside ? this.#outer : 0;
  }

  /** Changes the bytes in place, which follow those before. */
  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at] as number;
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#inString = false;
        // No string goes over lines: the value is damaged, and the next one begins here.
        else if (byte === LINE_END) {
          this.#inString = false;
          this.#depth = this.#isBare ? 0 : this.#outer;
          this.#isBare = false;
        }
      } else if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        this.#isBare ||= this.#depth < this.#outer && byte === OPEN_OBJECT;
        if (++this.#depth <= this.#outer && !this.#isBare) bytes[at] = SPACE;
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        const isList = this.#depth <= this.#outer && !this.#isBare;
        // What closes nothing is of a value that is damaged.
        if (isList && byte === CLOSE_OBJECT) continue;
        if (this.#depth > 0) this.#depth--;
        if (isList && this.#outer === 1) bytes[at] = LINE_END;
        if (this.#depth === 0) this.#isBare = false;
      } else if (byte === COMMA && this.#depth <= this.#outer && this.#outer === 1 && !this.#isBare) {
        bytes[at] = LINE_END;
      } else if (byte === LINE_END && this.#depth > 0) bytes[at] = SPACE;
      else if (this.#depth === 0 && BYTE_ORDER_MARK.includes(byte)) bytes[at] = SPACE;
    }
  }
}
