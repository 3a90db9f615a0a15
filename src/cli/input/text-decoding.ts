// Bytes of a text file, piece by piece -> its characters. Bytes that are not characters of the encoding are an error:
// U+FFFD in their place would make one name of several.
import { isUtf8 } from 'node:buffer';

export const UTF_8 = 'utf-8';

/** What came of a piece. */
export interface DecodedPiece {
  /** Its characters: those before the bad byte, where there is one. */
  readonly text: string;
  /** What is wrong after them, to be read after "line N ". */
  readonly problem?: string;
}

/** Whether it names an encoding that TextDecoder knows. */
export function isEncoding(label: string): boolean {
  try {
    new TextDecoder(label);
    return true;
  } catch {
    return false;
  }
}

export class TextDecoding {
  readonly #encoding: string;
  readonly #decoder;
  /** The first bytes of a character that the last piece broke off. */
  #carried: Buffer = Buffer.alloc(0);
  /** Bytes before those. */
  #done = 0;

  /** @param encoding a name that TextDecoder knows */
  constructor(encoding = UTF_8) {
    this.#encoding = new TextDecoder(encoding).encoding;
    this.#decoder = new TextDecoder(encoding, { fatal: true });
  }

  /** @param piece undefined at the end */
  decode(piece: Buffer | undefined): DecodedPiece {
    const isStart = this.#done === 0 && this.#carried.length === 0;
    const bytes = piece === undefined ? this.#carried : Buffer.concat([this.#carried, piece]);
    if (this.#encoding === UTF_8 && isStart && isUtf16(bytes)) {
      return {
        text: '',
        problem: `begins with the mark of UTF-16: ${ADVICE} utf-16${bytes[0] === 0xff ? 'le' : 'be'}`,
      };
    }
    try {
      const text = piece === undefined ? this.#decoder.decode() : this.#decoder.decode(piece, { stream: true });
      const mark = isStart && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
      // Of other encodings the length of characters is not known: only the bytes of whole pieces are counted.
      const taken = this.#encoding === UTF_8 ? Math.min(Buffer.byteLength(text) + mark, bytes.length) : bytes.length;
      this.#carried = Buffer.from(bytes.subarray(taken));
      this.#done += taken;
      return { text };
    } catch {
      return this.#bad(bytes, isStart);
    }
  }

  #bad(bytes: Buffer, isStart: boolean): DecodedPiece {
    if (this.#encoding !== UTF_8) {
      return { text: '', problem: `or one soon after it is not ${this.#encoding}: ${ADVICE} another one` };
    }
    const valid = validBytes(bytes);
    const text = bytes.toString('utf8', isStart && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0, valid);
    const byte = `0x${(bytes[valid] ?? 0).toString(16).padStart(2, '0')}`;
    return {
      text,
      problem: `is not UTF-8: byte ${this.#done + valid} of the file is ${byte}. Save it as UTF-8, or ${ADVICE} latin1`,
    };
  }
}

const ADVICE = 'name its encoding, such as --encoding';
const BYTE_ORDER_MARK = Buffer.of(0xef, 0xbb, 0xbf);

function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
}

/** How many of the bytes come before the first that is not UTF-8. */
function validBytes(bytes: Buffer): number {
  const decodes = (count: number): boolean => {
    try {
      new TextDecoder(UTF_8, { fatal: true }).decode(bytes.subarray(0, count), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  let low = 0;
  let high = bytes.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (decodes(middle)) low = middle;
    else high = middle;
  }
  // The bad byte may be the one that does not go on with the character before it.
  while (low > 0 && !isUtf8(bytes.subarray(0, low))) low--;
  return low;
}
