// Indexes where the lines of each step are in a log of JSON lines, and continues at the old end when the log grows.
import { crc32 } from 'node:zlib';
import { type Fields, LineProblem } from '../fields.js';
import type { RolloutFormat, RowSplit } from '../format.js';
import { checkSilent, type LoggedRange, type LogPart, type Range, RangeRoom, WHOLE_FILE } from '../log-part.js';
import { followingPaths, withRoots } from '../rows/dotted-paths.js';
import { JsonFields } from './json-fields.js';
import { giveBack, type LineFile, SHORTEST_ROW } from './line-blocks.js';

const LINE_END = 0x0a;

/** Bytes at a file's beginning that show whether it is still the one that was read. */
const HEAD_BYTES = 4096;

interface Part extends LogPart {
  readonly ranges: LoggedRange[];
}

interface State {
  readonly parts: Map<string, Part>;
  /** Lines so far. */
  lines: number;
  /** Of the latest line that said its step. */
  key: string | undefined;
  /** Lines since then. */
  silent: number;
  readonly room: RangeRoom;
  readonly path: string;
}

export class LineIndex {
  #state: State | undefined;
  /** Behind the last whole line. */
  #end = 0;
  #head: { readonly bytes: number; readonly checksum: number } = { bytes: 0, checksum: 0 };

  /**
   * Reads what has been added since the last call.
   * @returns a part a step; one part, without a step, if no line says one
   * @throws FileError when the file cannot be read
   */
  async advance(file: LineFile, format: RolloutFormat, signal: AbortSignal | undefined): Promise<LogPart[]> {
    const names = [format.stepField, format.runField].filter((name) => name !== undefined);
    if (names.length === 0 && format.splits === undefined) return [WHOLE_FILE];
    if (this.#state === undefined || !(await this.#isSame(file, signal))) {
      const { path } = file;
      this.#state = {
        parts: new Map(),
        lines: 0,
        key: undefined,
        silent: 0,
        room: new RangeRoom(path, file.maxMemory, !file.isPlain),
        path,
      };
      this.#end = 0;
    }
    const state = this.#state;
    const saying = sayingOf(format, true);
    let found = state;
    for await (const { bytes, offset, tooLong } of file.blocks(this.#end, Number.POSITIVE_INFINITY, signal)) {
      if (tooLong !== undefined) stepOver(state, offset);
      const whole = bytes.lastIndexOf(LINE_END) + 1;
      takeLines(state, saying, bytes.subarray(0, whole), offset);
      this.#end = offset + whole;
      if (offset === 0) this.#head = headOf(bytes);
      // The last line may be one that is being written: it is looked at again.
      if (whole < bytes.length) found = withRest(state, format, bytes.subarray(whole), this.#end);
      giveBack(bytes.buffer);
    }
    if (found.parts.size === 0) return [WHOLE_FILE];
    return [...found.parts.values()].map(copyOf);
  }

  /** Whether it is the file that was read before, and no shorter. */
  async #isSame(file: LineFile, signal: AbortSignal | undefined): Promise<boolean> {
    const { bytes, checksum } = this.#head;
    if (this.#end === 0 || !file.isPlain || file.storedBytes < this.#end) return false;
    for await (const block of file.blocks(0, bytes, signal, bytes)) return headOf(block.bytes).checksum === checksum;
    return false;
  }
}

/** Identifies the content of ranges; undefined if nothing is known of it. */
export function digestOf(ranges: readonly (Range & { readonly checksum?: number })[]): string | undefined {
  const checksums = ranges.map(({ checksum }) => checksum);
  if (checksums.includes(undefined)) return undefined;
  const bytes = ranges.reduce((sum, { begin, end }) => sum + end - begin, 0);
  return `${bytes}-${crc32(checksums.join()).toString(16)}`;
}

function copyOf(part: Part): Part {
  return { ...part, ranges: part.ranges.map((range) => ({ ...range })) };
}

function headOf(bytes: Buffer): { bytes: number; checksum: number } {
  const head = bytes.subarray(0, HEAD_BYTES);
  return { bytes: head.length, checksum: crc32(head) };
}

/** Takes in whole lines. */
function takeLines(state: State, saying: Saying, bytes: Buffer, offset: number): void {
  // Lines of one step mostly come together: their bytes are taken into its checksum in one go.
  let unchecked = 0;
  for (let begin = 0; begin < bytes.length; ) {
    const end = bytes.indexOf(LINE_END, begin);
    // So short a line says nothing, and there may be millions of them.
    const isShort = end - begin < SHORTEST_ROW;
    const said = isShort ? undefined : saidIn(saying, bytes, begin, end);
    const before = currentPart(state);
    // A line that says nothing goes with those before it, and is named when they are read.
    if (said !== undefined && said.key !== state.key) {
      if (before !== undefined) take(before, bytes.subarray(unchecked, begin));
      // Lines before the first one that says its step belong to that step.
      const from = before === undefined ? 0 : offset + begin;
      unchecked = before === undefined ? 0 : begin;
      const line = before === undefined ? 0 : state.lines;
      const part = state.parts.get(said.key) ?? { step: said.step, run: said.run, split: said.split, ranges: [] };
      state.room.take(part.ranges.length === 0);
      part.ranges.push({ begin: from, end: offset + end + 1, line, lines: state.lines + 1 - line, checksum: 0 });
      state.parts.set(said.key, part);
      state.key = said.key;
    } else if (before !== undefined) {
      const range = before.ranges.at(-1) as LoggedRange;
      range.end = offset + end + 1;
      range.lines++;
    }
    begin = end + 1;
    state.lines++;
    if (!isShort) state.silent = said === undefined ? state.silent + 1 : 0;
    if (said !== undefined) state.room.addRow();
    if (before !== undefined) checkSilent(state.path, state.silent, 'lines', state.lines);
  }
  const part = currentPart(state);
  if (part !== undefined) take(part, bytes.subarray(unchecked));
}

/** Gives a line that is too long, and ends here, to the step before it: it is named when that is read. */
function stepOver(state: State, end: number): void {
  const range = currentPart(state)?.ranges.at(-1);
  if (range !== undefined) {
    range.end = end;
    range.lines++;
  }
  state.lines++;
}

/** Into the checksum of its latest range. */
function take({ ranges }: Part, bytes: Buffer): void {
  const range = ranges.at(-1) as LoggedRange;
  range.checksum = crc32(bytes, range.checksum);
}

function currentPart({ parts, key }: State): Part | undefined {
  return key === undefined ? undefined : parts.get(key);
}

/** The same with what follows the last whole line: a line of its own if it is complete, else part of the step before. */
function withRest(state: State, format: RolloutFormat, bytes: Buffer, offset: number): State {
  const parts = new Map([...state.parts].map(([key, part]) => [key, copyOf(part)]));
  // What is looked at again takes no room.
  const copy = { ...state, parts, room: new RangeRoom(state.path, undefined) };
  // A line that is cut may say its step before it ends.
  takeLines(copy, sayingOf(format, false), Buffer.concat([bytes, Buffer.from([LINE_END])]), offset);
  return copy;
}

/** Fields with the step of a line, and its run. */
interface Saying {
  readonly format: RolloutFormat;
  readonly names: readonly string[];
  readonly fields: JsonFields;
  /** Of further fields: looked for where the others do not say it. */
  readonly splits: readonly { readonly split: RowSplit; readonly fields: JsonFields }[];
}

/** @param stops the rest of a line is not looked at */
function sayingOf(format: RolloutFormat, stops: boolean): Saying {
  const names = [format.stepField, format.runField].filter((name) => name !== undefined);
  const searched = (wanted: readonly string[]): JsonFields => {
    const all = withRoots(wanted);
    // Of a path within an object no field has the name.
    return new JsonFields(all, stops ? all.filter((name) => format.fields.includes(name)) : undefined);
  };
  const splits = (format.splits ?? []).map((split) => ({ split, fields: searched([split.field]) }));
  return { format, names, fields: searched(names), splits };
}

function saidIn(
  { format: { stepField, runField }, names, fields, splits }: Saying,
  bytes: Buffer,
  begin: number,
  end: number,
): { key: string; step: number | undefined; run: string | undefined; split: string | undefined } | undefined {
  try {
    const at = names.length === 0 ? undefined : followingPaths(fields.read(bytes, begin, end), names);
    const step = at === undefined || stepField === undefined ? undefined : stepOf(at, stepField);
    const run = at === undefined || runField === undefined ? undefined : at.id(runField);
    let split: string | undefined;
    for (const one of splits) split ??= one.split.of(one.fields.read(bytes, begin, end));
    if (step === undefined && run === undefined && split === undefined) return undefined;
    return { key: `${step}\n${run}\n${split}`, step, run, split };
  } catch (error) {
    if (error instanceof LineProblem) return undefined;
    throw error;
  }
}

/** A step for each line, or a column of them that are all the same. */
function stepOf(fields: Fields, name: string): number | undefined {
  const value = fields.value(name);
  return Array.isArray(value) ? (fields.single(name).count(name) ?? firstOf(value)) : fields.count(name);
}

function firstOf(values: readonly unknown[]): number | undefined {
  const [first] = values;
  const step = typeof first === 'string' && first !== '' ? Number(first) : first;
  return typeof step === 'number' && Number.isSafeInteger(step) && step >= 0 ? step : undefined;
}
