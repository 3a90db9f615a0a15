// Reads the first rows of a file: enough to find its reader, and to check the columns that a user names.
import { FileError } from '../../../checks/errors.js';
import { CsvFile } from '../csv-log.js';
import type { Fields } from '../fields.js';
import type { Container } from '../format.js';
import { JsonFields, keysOf } from '../json-lines/json-fields.js';
import { parseJsonLine } from '../json-lines/json-line.js';
import { LineFile } from '../json-lines/line-blocks.js';
import { ParquetFile } from '../parquet/parquet-log.js';
import { followingPaths, rootOf, withRoots } from './dotted-paths.js';

export interface FileHead {
  /** Keys of each of the first rows, no set twice; none for an empty file. */
  readonly rows: readonly ReadonlySet<string>[];
  /** Of these names, those that no row has; none where no whole row was seen. */
  readonly missing: readonly string[];
  /** Steps that the first rows say, by the field that has them; of tables unknown. */
  readonly steps: ReadonlyMap<string, ReadonlySet<number>>;
  readonly bytes: number;
  readonly stamp: string;
  /** Of JSON: the first lines, whole ones. */
  readonly lines?: Buffer;
  /** Of JSON: names of what is in the objects of the first whole row, as paths. */
  readonly paths?: () => string[];
}

/** Enough to see the keys of most first lines; longer ones are looked at further. */
const HEAD_BYTES = 2 ** 16;
const LONGEST_HEAD = 2 ** 23;

/** Names in objects that are looked at. */
const MOST_PATHS = 200;
const DEEPEST_PATH = 3;

/** A heading, or rows that lack a key, may come first. */
const MOST_ROWS = 100;

/**
 * @param names that must be there
 * @param stepFields in which rows may say their steps
 * @throws FileError when it cannot be read
 */
export async function headOf(
  path: string,
  container: Container,
  names: readonly string[],
  stepFields: readonly string[],
  signal: AbortSignal | undefined,
): Promise<FileHead> {
  if (container === 'json-lines') return headOfLines(path, names, stepFields, signal);
  const file = await (container === 'parquet' ? ParquetFile : CsvFile).open(path, signal);
  try {
    const columns = new Set(file.columns.map((column) => (typeof column === 'string' ? column : column.name)));
    const { storedBytes: bytes, stamp } = file;
    const isThere = (name: string): boolean =>
      columns.has(name) || (container === 'parquet' && columns.has(rootOf(name)));
    const missing = names.filter((name) => !isThere(name));
    return { rows: columns.size === 0 ? [] : [columns], missing, steps: new Map(), bytes, stamp };
  } finally {
    await file.close();
  }
}

async function headOfLines(
  path: string,
  names: readonly string[],
  stepFields: readonly string[],
  signal: AbortSignal | undefined,
): Promise<FileHead> {
  const file = await LineFile.open(path, signal);
  try {
    const { storedBytes: bytes, stamp } = file;
    for (let head = HEAD_BYTES; ; head *= 8) {
      let isAll = false;
      for await (const block of file.blocks(0, head, signal, head)) {
        checkEncoding(path, block.bytes);
        const isEnd = block.bytes.length < head;
        isAll = isEnd;
        const last = block.bytes.lastIndexOf(0x0a);
        const begin = contentBegin(block.bytes);
        if (begin === block.bytes.length || (last < begin && !isEnd && head < LONGEST_HEAD)) break;
        return {
          ...rowsIn(block.bytes, begin, isEnd || last < begin ? block.bytes.length : last, names, stepFields),
          bytes,
          stamp,
        };
      }
      // Of a packed file it is not known what it unpacks to.
      if (head >= LONGEST_HEAD || (file.isPlain && head >= bytes) || isAll)
        return { rows: [], missing: [], steps: new Map(), bytes, stamp };
    }
  } finally {
    await file.close();
  }
}

function rowsIn(
  bytes: Buffer,
  first: number,
  length: number,
  names: readonly string[],
  stepFields: readonly string[],
): Pick<FileHead, 'rows' | 'missing' | 'steps' | 'lines' | 'paths'> {
  const known = new Map<string, ReadonlySet<string>>();
  const missing = new Set(names);
  const read = [...names, ...stepFields];
  const fields = new JsonFields(withRoots(read));
  const steps = new Map(stepFields.map((name) => [name, new Set<number>()]));
  let whole = 0;
  let begin = first;
  for (let row = 0; row < MOST_ROWS && begin < length; row++) {
    const found = bytes.indexOf(0x0a, begin);
    const end = found < 0 ? length : Math.min(found, length);
    const keys = keysOf(bytes, begin, end);
    known.set([...keys].sort().join('\n'), keys);
    const valueAt = valuesIn(fields, bytes, begin, end, read);
    if (valueAt !== undefined) {
      whole++;
      for (const name of names) {
        if (keys.has(name) || (rootOf(name) !== name && valueAt(name) !== undefined)) missing.delete(name);
      }
      for (const [name, said] of steps) {
        const step = valueAt(name);
        if (typeof step === 'number') said.add(step);
      }
    }
    begin = end + 1;
  }
  return {
    rows: [...known.values()].filter(({ size }, _, { length: sets }) => size > 0 || sets === 1),
    missing: whole === 0 ? [] : [...missing],
    steps,
    lines: bytes.subarray(first, begin),
    paths: () => pathsIn(bytes.subarray(first, length)),
  };
}

/** Paths into the objects of the first line that is an object, and into the first entry of its lists. */
function pathsIn(bytes: Buffer): string[] {
  const found: string[] = [];
  const look = (value: unknown, at: string, depth: number): void => {
    if (depth > DEEPEST_PATH || typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(Array.isArray(value) ? value.slice(0, 1) : value)) {
      if (found.length >= MOST_PATHS || name.includes('.')) continue;
      const path = at === '' ? name : `${at}.${name}`;
      if (depth > 0) found.push(path);
      look(inner, path, depth + 1);
    }
  };
  for (const line of bytes.toString('utf8').split('\n')) {
    try {
      const value = parseJsonLine(line);
      if (typeof value !== 'object' || value === null || Array.isArray(value)) continue;
      look(value, '', 0);
      return found;
    } catch {
      // The next one may be whole.
    }
  }
  return found;
}

/** A row's values at the paths; undefined for a line that is not a row, or not whole. */
function valuesIn(
  fields: JsonFields,
  bytes: Buffer,
  begin: number,
  end: number,
  names: readonly string[],
): ((name: string) => unknown) | undefined {
  let at: Fields;
  try {
    at = followingPaths(fields.read(bytes, begin, end), names);
  } catch {
    return undefined;
  }
  return (name) => {
    try {
      return at.value(name);
    } catch {
      return undefined;
    }
  };
}

/** Past blank lines. */
function contentBegin(bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length && [0x20, 0x09, 0x0d, 0x0a].includes(bytes[at] as number)) at++;
  return at;
}

/** @throws FileError for what Windows' shell writes */
function checkEncoding(path: string, bytes: Buffer): void {
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    throw new FileError({ path, offset: 0 }, 'is UTF-16, expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8)');
  }
}
