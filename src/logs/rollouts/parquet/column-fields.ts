// Reads one row of a table in columns: values are extracted on request, and long texts stay the bytes that their page
// has.
import { constants, isUtf8 } from 'node:buffer';
import { printable } from '../../../checks/words.js';
import { Fields, LineProblem } from '../fields.js';
import { bufferOver, type LoggedText, textOf } from '../logged-text.js';
import { badByteIn } from '../not-utf8.js';

export interface Column {
  /** By row: undefined or null if it has none. */
  readonly values: ArrayLike<unknown>;
  /** A text a row: bytes among the values are texts that were not decoded yet. */
  readonly isText: boolean;
}

/** As of JSON lines: a shorter string costs no more than its bytes would. */
const LONG_TEXT = 128;

/** V8 has no longer strings. */
const LONGEST_TEXT = constants.MAX_STRING_LENGTH;

/** What a column of texts holds of one: the string where it is short. */
export function heldText(bytes: Uint8Array | undefined): string | Uint8Array | undefined {
  // What is not UTF-8 is wrong with the row that has it, not with the file.
  if (bytes === undefined || bytes.length >= LONG_TEXT || !isUtf8(bytes)) return bytes;
  return textOf(bytes);
}

export class ColumnFields extends Fields {
  row = 0;
  readonly names: readonly string[];

  constructor(private readonly columns: ReadonlyMap<string, Column>) {
    super();
    this.names = [...columns.keys()];
  }

  value(name: string): unknown {
    const text = this.#bytes(name);
    if (text !== undefined) return textOf(checked(text, name));
    return this.columns.get(name)?.values[this.row] ?? undefined;
  }

  /** Whether every column has the same number, text or nothing as the row before. */
  isAsBefore(): boolean {
    for (const { values } of this.columns.values()) {
      const value = values[this.row];
      if (value !== values[this.row - 1] || typeof value === 'object') return false;
    }
    return true;
  }

  override isText(name: string): boolean {
    return this.#bytes(name) !== undefined || super.isText(name);
  }

  override written(name: string): LoggedText | undefined {
    const text = this.#bytes(name);
    return text === undefined ? this.text(name) : checked(text, name);
  }

  /** Of a text that is still bytes. */
  #bytes(name: string): Uint8Array | undefined {
    const column = this.columns.get(name);
    const value = column?.isText ? column.values[this.row] : undefined;
    return value instanceof Uint8Array ? value : undefined;
  }
}

/** @throws {LineProblem} if the bytes are not text that can be read */
function checked(text: Uint8Array, name: string): Uint8Array {
  if (text.length > LONGEST_TEXT) {
    const problem = `has ${text.length} bytes, more than the ${LONGEST_TEXT} that are read`;
    throw new LineProblem(`${printable(name)} ${problem}`);
  }
  if (isUtf8(text)) return text;
  const { place, byte } = badByteIn(bufferOver(text));
  throw new LineProblem(`${printable(name)} is not UTF-8: its byte ${place} is ${byte}; write texts in UTF-8`);
}
