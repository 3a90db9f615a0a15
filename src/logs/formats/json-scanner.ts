// Scans JSON from untrusted bytes without a tree or unlimited recursion, and reports unexpected content with its byte
// position. JSON.parse would hide duplicate keys, take 1.0 for an integer, and cannot say where a value was.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;

/** Nesting beyond this is refused in values that are skipped. */
const MAX_DEPTH = 64;

/** Half of a pair of UTF-16: text that no other JSON reader takes, and that UTF-8 cannot hold. */
export const LONE_SURROGATE = /\p{Surrogate}/u;

const PLAIN = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Bytes of numbers and of true, false, null. */
function isWordByte(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const digit = byte >= 0x30 && byte <= 0x39;
  const letter = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x41 && byte <= 0x5a);
  return digit || letter || byte === 0x2b || byte === 0x2d || byte === 0x2e;
}

/** Called with the position in `bytes` and what is wrong; must throw. */
export type ScanFailure = (position: number, problem: string) => never;

export class JsonScanner {
  /** Next byte to read. */
  position = 0;
  readonly #bytes: Buffer;
  readonly #fail: ScanFailure;

  /** `bytes` must be valid UTF-8. */
  constructor(bytes: Buffer, fail: ScanFailure) {
    this.#bytes = bytes;
    this.#fail = fail;
  }

  /** Reads `{…}`; `member` is called after each key and must consume the value. */
  object(what: string, member: (key: string, keyPosition: number) => void): void {
    this.#open(0x7b, what, 'a JSON object');
    if (this.#closes(0x7d)) return;
    do {
      this.#space();
      const at = this.position;
      const key = this.string(`a key of ${what}`);
      this.#space();
      if (this.#bytes[this.position] !== COLON) this.#unexpected('":"');
      this.position++;
      member(key, at);
    } while (this.#continues(0x7d, what));
  }

  /** Reads `[…]`; `element` must consume one value. */
  array(what: string, element: () => void): void {
    this.#open(0x5b, what, 'an array');
    if (this.#closes(0x5d)) return;
    do element();
    while (this.#continues(0x5d, what));
  }

  string(what: string): string {
    this.#space();
    const start = this.position;
    if (this.#bytes[start] !== QUOTE) this.#unexpected(`${what} in double quotes`);
    let escaped = false;
    for (let i = start + 1; i < this.#bytes.length; i++) {
      const byte = this.#bytes[i] as number;
      if (byte === QUOTE) {
        this.position = i + 1;
        return escaped ? this.#unescape(start, i + 1) : this.#bytes.toString('utf8', start + 1, i);
      }
      if (byte === BACKSLASH) {
        escaped = true;
        i++;
      } else if (byte < 0x20) {
        this.#fail(i, `a control character inside a string (${what})`);
      }
    }
    return this.#fail(start, `a string without its closing quote (${what})`);
  }

  /** A whole number from 0 to 2^53 − 1, written without a fraction or exponent. */
  integer(what: string): number {
    this.#space();
    const at = this.position;
    const word = this.#word();
    const value = Number(word);
    if (!/^(0|[1-9][0-9]*)$/.test(word) || !Number.isSafeInteger(value)) {
      this.position = at;
      this.#unexpected(`${what} as a whole number from 0 to 2^53 − 1`);
    }
    return value;
  }

  /** A string, or a number as it is written. */
  stringOrNumber(what: string): string {
    this.#space();
    const at = this.position;
    if (this.#bytes[at] === QUOTE) return this.string(what);
    const word = this.#word();
    if (!PLAIN.test(word)) {
      this.position = at;
      this.#unexpected(`${what} as a string or a number`);
    }
    return word;
  }

  /** Steps over one value of any kind. */
  skip(depth = 0): void {
    this.#space();
    const at = this.position;
    if (depth > MAX_DEPTH) this.#fail(at, `values nested deeper than ${MAX_DEPTH}`);
    const byte = this.#bytes[at];
    if (byte === 0x7b) {
      this.object('an object', () => this.skip(depth + 1));
    } else if (byte === 0x5b) {
      this.array('an array', () => this.skip(depth + 1));
    } else if (byte === QUOTE) {
      this.string('a string');
    } else {
      const word = this.#word();
      if (word !== 'true' && word !== 'false' && word !== 'null' && !PLAIN.test(word)) {
        this.position = at;
        this.#unexpected('a JSON value');
      }
    }
  }

  /** Only white space may be left. */
  end(): void {
    this.#space();
    if (this.position < this.#bytes.length) this.#unexpected('nothing but spaces after the JSON object');
  }

  #space(): void {
    while (isSpace(this.#bytes[this.position])) this.position++;
  }

  /** At most 64 bytes: no number or literal worth reading is longer. */
  #word(): string {
    const start = this.position;
    while (isWordByte(this.#bytes[this.position]) && this.position - start < 64) this.position++;
    return this.#bytes.toString('latin1', start, this.position);
  }

  #open(byte: number, what: string, kind: string): void {
    this.#space();
    if (this.#bytes[this.position] !== byte) this.#unexpected(`${kind} (${what})`);
    this.position++;
  }

  #closes(byte: number): boolean {
    this.#space();
    if (this.#bytes[this.position] !== byte) return false;
    this.position++;
    return true;
  }

  #continues(close: number, what: string): boolean {
    if (this.#closes(close)) return false;
    if (this.#bytes[this.position] !== COMMA) this.#unexpected(`"," or "${String.fromCharCode(close)}" in ${what}`);
    this.position++;
    return true;
  }

  #unescape(start: number, end: number): string {
    let text: string;
    try {
      text = JSON.parse(this.#bytes.toString('utf8', start, end)) as string;
    } catch {
      return this.#fail(start, 'a string with an escape that JSON does not have');
    }
    if (LONE_SURROGATE.test(text)) this.#fail(start, 'a string with half of a surrogate pair, which is no character');
    return text;
  }

  #unexpected(expected: string): never {
    const rest = this.#bytes.toString('utf8', this.position, this.position + 16);
    const came = rest === '' ? 'the end of the header' : JSON.stringify(rest);
    return this.#fail(this.position, `expected ${expected}, found ${came}`);
  }
}
