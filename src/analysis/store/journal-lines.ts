// Reads and writes the lines of a journal, `CRC32 HEAD MEASUREMENT` separated by tabs: 8 hexadecimal digits over the
// rest, a head, and the exact JSON of the measurement. The first line has only the settings of all measurements.
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { packageVersion } from '../../checks/package-version.js';
import { printable } from '../../checks/words.js';
import { headerDigest } from '../../logs/steps/step-digest.js';
import { fileLines } from '../../logs/stores/file-lines.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import type { MeasureOptions } from '../measuring/measure-options.js';
import { possibleKeys } from '../measuring/metric-names.js';
import { stringifyLossless } from './lossless-json.js';

/** Version of the form of the lines. */
const FORMAT = 3;

/** No step's figures take more: a longer line is damaged. */
const MAX_LINE_BYTES = 2 ** 28;

/** With the tab behind it. */
const CHECKSUM_BYTES = 9;

/** Which step, with which content. */
export interface JournalStep {
  /** Names the step among all that a journal may hold (step-keys.ts). */
  readonly key: string;
  /** StepHeader.identity, or that of the step's rows in logs. */
  readonly identity: string;
}

/** What the first line says. */
interface Head {
  readonly journal: number;
  readonly version: string;
  /** Digest of the names of all figures that a step can have. */
  readonly figures: string;
  readonly measuring: MeasureOptions;
}

/** The first line, but for its checksum. */
export function journalHead(measuring: MeasureOptions, version = packageVersion()): string {
  const figures = headerDigest(possibleKeys(measuring.profile).join('\n'));
  return JSON.stringify({ journal: FORMAT, version, figures, measuring } satisfies Head);
}

/** The line of a measured step, but for its checksum. */
export function stepLine({ key, identity }: JournalStep, measurement: StepMeasurement): Buffer {
  return journalLine(JSON.stringify({ step: key, identity }), stringifyLossless(measurement));
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

/** The text after the checksum, without the line's end; undefined if it is not what was written. */
export function intact(bytes: Buffer): string | undefined {
  const rest = bytes.subarray(CHECKSUM_BYTES, bytes.length - 1);
  if (bytes.length <= CHECKSUM_BYTES || bytes.at(-1) !== 0x0a) return undefined;
  return bytes.toString('latin1', 0, CHECKSUM_BYTES) === `${checksum(rest)}\t` ? rest.toString() : undefined;
}

/** Where a scan of a journal came to. */
export interface ScannedJournal {
  /** Where the last line ends that is whole; 0 if nothing is of use. */
  readonly end: number;
  /** Why nothing of it is used. */
  readonly startedAnew?: string | undefined;
  /** It is a whole journal, of other options or another version. */
  readonly isOther?: boolean | undefined;
}

/**
 * Reads a journal through once.
 * @param take called with each whole line: which step it is of, and where it lies
 */
export async function scanJournal(
  handle: FileHandle,
  head: string,
  take: (step: JournalStep, position: number, bytes: number) => void,
): Promise<ScannedJournal> {
  let end = 0;
  for await (const { bytes, position } of fileLines(handle, MAX_LINE_BYTES)) {
    const text = intact(bytes);
    if (position === 0) {
      const problem = text === head ? undefined : differing(text, head);
      if (problem !== undefined) return { end: 0, startedAnew: problem, isOther: text !== undefined };
    } else if (text !== undefined) {
      const step = stepOf(text);
      if (step !== undefined) take(step, position, bytes.length);
    }
    end = position + bytes.length;
  }
  return { end };
}

function stepOf(text: string): JournalStep | undefined {
  const { step, identity } = (parsed(text.slice(0, text.indexOf('\t'))) ?? {}) as {
    step?: unknown;
    identity?: unknown;
  };
  return typeof step === 'string' && typeof identity === 'string' ? { key: step, identity } : undefined;
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

/** Why what has another first line is not used; undefined if nothing that counts differs. */
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
  if (changed.length === 0) return 'its steps have other figures than those of this build';
  const options = changed.map((name) => `${name} ${shownAs(came.measuring?.[name])}`).join(', ');
  return `it had other options: ${printable(options)}`;
}
