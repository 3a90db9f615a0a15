// Files of one run, of which some are copies of others: a log and its compressed twin, and files of equal bytes. Size
// first: few files are read for it.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { FileError } from '../../../checks/errors.js';
import { printable } from '../../../checks/words.js';
import { naturalOrder } from '../../stores/natural-order.js';
import { openBytes } from '../../stores/store.js';
import type { LogFile } from '../find-logs.js';
import { LineFile } from '../json-lines/line-blocks.js';

/** Of files that were compared: by what was compared, and when it was written. */
export type SeenContents = Map<string, string>;

/** Copies that a note names. */
const MOST_NAMED = 5;

const READ_BYTES = 2 ** 20;

/**
 * @param files in natural order
 * @param seen what an earlier look found, which is filled
 * @returns files that are not copies of another, and what to say of the others
 */
export async function leaveOutCopies(
  files: readonly LogFile[],
  seen: SeenContents | undefined,
  signal: AbortSignal | undefined,
): Promise<{ readonly files: readonly LogFile[]; readonly notes: string[] }> {
  const copies = new Map<LogFile, LogFile>();
  const comparing = new Comparing(seen, signal);
  for (const run of grouped(files, ({ choice, place }) => [choice.name, place.runDirectory, place.split]).values()) {
    if (run.length < 2) continue;
    for (const same of grouped(run, ({ container, bytes, path }) => [container, bytes, packing(path)]).values())
      await takeEqual(same, copies, comparing);
    await takeTwins(run, copies, comparing);
  }
  if (copies.size === 0) return { files, notes: [] };
  const named = [...copies].slice(0, MOST_NAMED).map(([copy, of]) => `${nameOf(copy)} (of ${nameOf(of)})`);
  const more = copies.size > MOST_NAMED ? `, and ${copies.size - MOST_NAMED} more` : '';
  const notes = [`passed over, being copies of other files: ${named.join(', ')}${more}`];
  return { files: files.filter((file) => !copies.has(file)), notes };
}

const nameOf = ({ path }: LogFile): string => printable(basename(path));

/** Steps that say nothing of themselves may be equal: their names distinguish them. */
const mayBeSame = (one: LogFile, other: LogFile): boolean =>
  one.place.step === other.place.step || one.place.step === undefined || other.place.step === undefined;

async function takeEqual(
  files: readonly LogFile[],
  copies: Map<LogFile, LogFile>,
  comparing: Comparing,
): Promise<void> {
  const candidates = files.filter((file) => files.some((other) => other !== file && mayBeSame(file, other)));
  const first = new Map<string, LogFile[]>();
  // A file that its name gives a step is the one that its trainer wrote.
  const isNamed = ({ place }: LogFile): number => (place.step === undefined ? 1 : 0);
  for (const file of candidates.sort((a, b) => isNamed(a) - isNamed(b) || naturalOrder(a.path, b.path))) {
    const digest = await comparing.digestOf(file);
    if (digest === undefined) continue;
    const others = first.get(digest) ?? [];
    const original = others.find((other) => mayBeSame(file, other));
    if (original === undefined) first.set(digest, [...others, file]);
    else copies.set(file, original);
  }
}

/** Of a log and what compression makes of it, the one that has more; one that is being packed or unpacked has less. */
async function takeTwins(files: readonly LogFile[], copies: Map<LogFile, LogFile>, comparing: Comparing) {
  const byPath = new Map(files.map((file) => [file.path, file]));
  for (const packed of files) {
    const ending = packing(packed.path);
    const plain = ending === '' ? undefined : byPath.get(packed.path.slice(0, -ending.length));
    if (plain === undefined || copies.has(packed) || copies.has(plain)) continue;
    const begins = await comparing.whichBegins(plain, packed);
    if (begins === 'plain') copies.set(plain, packed);
    else if (begins !== undefined) copies.set(packed, plain);
  }
}

function packing(path: string): string {
  return /\.(gz|zst)$/.exec(path)?.[0] ?? '';
}

/** Files that cannot be read are equal to none: what is wrong with them is reported when they are read. */
class Comparing {
  constructor(
    private readonly seen: SeenContents = new Map(),
    private readonly signal: AbortSignal | undefined,
  ) {}

  /** Of the bytes as they lie there. */
  digestOf({ path, stamp }: LogFile): Promise<string | undefined> {
    return this.#once(`${path}\n${stamp}`, async () => {
      const source = await openBytes(path, { signal: this.signal });
      try {
        const hash = createHash('sha256');
        const piece = Buffer.allocUnsafe(Math.min(READ_BYTES, source.bytes));
        for (let at = 0; at < source.bytes; at += piece.length) {
          const part = piece.subarray(0, Math.min(piece.length, source.bytes - at));
          await source.read(part, at, { signal: this.signal });
          hash.update(part);
        }
        return hash.digest('base64');
      } finally {
        await source.close();
      }
    });
  }

  /** Which of the two texts the other begins with, or is equal to; undefined if they differ. */
  whichBegins(plain: LogFile, packed: LogFile): Promise<string | undefined> {
    const key = [plain.path, plain.stamp, packed.path, packed.stamp].join('\n');
    return this.#once(key, async () => {
      const [one, other] = [
        await LineFile.open(plain.path, this.signal),
        await LineFile.open(packed.path, this.signal),
      ];
      try {
        return await beginning(one.pieces(this.signal), other.pieces(this.signal));
      } finally {
        await one.close();
        await other.close();
      }
    });
  }

  async #once(key: string, find: () => Promise<string | undefined>): Promise<string | undefined> {
    const before = this.seen.get(key);
    if (before !== undefined) return before === '' ? undefined : before;
    let found: string | undefined;
    try {
      found = await find();
    } catch (error) {
      if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
    }
    this.seen.set(key, found ?? '');
    return found;
  }
}

async function beginning(
  plain: AsyncGenerator<Buffer, undefined, undefined>,
  packed: AsyncGenerator<Buffer, undefined, undefined>,
): Promise<'plain' | 'packed' | undefined> {
  try {
    let one: Buffer | undefined;
    let other: Buffer | undefined;
    for (;;) {
      one = one?.length ? one : (await plain.next()).value;
      other = other?.length ? other : (await packed.next()).value;
      if (other === undefined) return 'packed';
      if (one === undefined) return 'plain';
      const length = Math.min(one.length, other.length);
      if (!one.subarray(0, length).equals(other.subarray(0, length))) return undefined;
      [one, other] = [one.subarray(length), other.subarray(length)];
    }
  } finally {
    await plain.return(undefined);
    await packed.return(undefined);
  }
}

function grouped<T>(values: readonly T[], keyOf: (value: T) => readonly unknown[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const key = JSON.stringify(keyOf(value));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [value]);
    else group.push(value);
  }
  return groups;
}
