// The file of a journal: `CRC32 HEAD MEASUREMENT` a line, the parts separated by tabs: 8 hexadecimal digits over the
// rest, what the line is about, and, but in the first line, the exact JSON of the measurement. The first line says what
// all were measured with.
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { printable } from '../../checks/words.js';
import { fileLines } from '../../logs/stores/file-lines.js';
import type { MeasureOptions } from '../measuring/step-measurement.js';

/** Version of the form of the lines. */
const FORMAT = 2;

/** No step's figures take more: a longer line is damaged. */
const MAX_LINE_BYTES = 2 ** 28;

/** With the tab behind it. */
const CHECKSUM_BYTES = 9;

/** Which step, with which content. */
export interface JournalStep {
  readonly file: string;
  /** Which of several steps that stand there. */
  readonly part?: string | undefined;
  /** StepHeader.identity, or that of the step's rows in logs. */
  readonly identity: string;
}

/** Where in the file a step's line lies, and which content of the step it was measured from. */
export interface JournalEntry {
  readonly identity: string;
  readonly position: number;
  readonly bytes: number;
}

/** What the first line says. */
interface Head {
  readonly journal: number;
  readonly version: string;
  readonly measuring: MeasureOptions;
}

/** The first line, but for its checksum. */
export function journalHead(version: string, measuring: MeasureOptions): string {
  return JSON.stringify({ journal: FORMAT, version, measuring } satisfies Head);
}

/** A line of the file, with its end. */
export function journalLine(...parts: readonly string[]): Buffer {
  const text = parts.join('\t');
  const bytes = Buffer.allocUnsafe(CHECKSUM_BYTES + Buffer.byteLength(text) + 1);
  bytes.write(text, CHECKSUM_BYTES);
  bytes[bytes.length - 1] = 0x0a;
  bytes.write(`${checksum(bytes.subarray(CHECKSUM_BYTES, -1))}\t`, 'latin1');
  return bytes;
}

function checksum(bytes: Uint8Array): string {
  return crc32(bytes).toString(16).padStart(8, '0');
}

/** The text after the checksum, without the line's end; undefined where it is not what was written. */
export function intact(bytes: Buffer): string | undefined {
  const rest = bytes.subarray(CHECKSUM_BYTES, bytes.length - 1);
  if (bytes.length <= CHECKSUM_BYTES || bytes.at(-1) !== 0x0a) return undefined;
  return bytes.toString('latin1', 0, CHECKSUM_BYTES) === `${checksum(rest)}\t` ? rest.toString() : undefined;
}

/** What an earlier analysis left. */
export interface FoundJournal {
  /** By the step's file. */
  readonly entries: ReadonlyMap<string, JournalEntry>;
  /** Where the last line ends that is whole. */
  readonly end: number;
  readonly startedAnew?: string | undefined;
}

export const NOTHING: FoundJournal = { entries: new Map(), end: 0 };

/** Reads the journal through once: where which step's line is. Of a step measured twice the later line counts. */
export async function scanJournal(handle: FileHandle, head: string): Promise<FoundJournal> {
  const entries = new Map<string, JournalEntry>();
  let end = 0;
  for await (const { bytes, position } of fileLines(handle, MAX_LINE_BYTES)) {
    const text = intact(bytes);
    if (position === 0) {
      const problem = text === head ? undefined : differing(text, head);
      if (problem !== undefined) return { entries, end: 0, startedAnew: problem };
    } else if (text !== undefined) {
      const about = stepOf(text);
      if (about !== undefined) entries.set(about.file, { identity: about.identity, position, bytes: bytes.length });
    }
    end = position + bytes.length;
  }
  return { entries, end };
}

function stepOf(text: string): JournalStep | undefined {
  const { file, identity } = (parsed(text.slice(0, text.indexOf('\t'))) ?? {}) as Partial<JournalStep>;
  return typeof file === 'string' && typeof identity === 'string' ? { file, identity } : undefined;
}

/** A whole line may be another than belongs there: undefined unless it is an object. */
function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Why what has another first line is not used; undefined where nothing that counts differs. */
export function differing(found: string | undefined, head: string): string {
  const wanted = JSON.parse(head) as Head;
  const came = found === undefined ? undefined : (parsed(found) as Partial<Head> | undefined);
  if (came?.journal !== wanted.journal || came.measuring === undefined)
    return 'its record of measured steps cannot be read';
  if (came.version !== wanted.version)
    return `it was of version ${printable(String(came.version))}, this is ${wanted.version}`;
  const names = Object.keys({ ...came.measuring, ...wanted.measuring }) as (keyof MeasureOptions)[];
  const shownAs = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value));
  const changed = names.filter((name) => shownAs(came.measuring?.[name]) !== shownAs(wanted.measuring[name]));
  const options = changed.map((name) => `${name} ${shownAs(came.measuring?.[name])}`).join(', ');
  return `it had other options: ${printable(options)}`;
}
