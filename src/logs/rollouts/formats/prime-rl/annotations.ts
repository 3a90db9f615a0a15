// What prime-rl learns of a trace after it was logged: monitors/file/traces/annotations/{producer}/NNNNN.jsonl, or .zst
// once a chunk is sealed. An update names the trace and has streams of values, one a token of a branch, of which the
// newest counts. A node takes a stream that covers all of its tokens and has a value for each sampled one; `is_masked`
// may have gaps. prime-rl 65a18584 (src/prime_rl/monitors/file/traces/update.py, fold_trace_updates).
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { naturalOrder } from '../../../stores/natural-order.js';
import { isRemote } from '../../../stores/store.js';
import { fieldsOf, LineProblem } from '../../fields.js';
import type { AnnotatedRows, Annotations } from '../../format.js';
import { JsonFields } from '../../json-lines/json-fields.js';
import { parseJsonLine } from '../../json-lines/json-line.js';
import { giveBack, LineFile } from '../../json-lines/line-blocks.js';

/** Places of the sampled tokens of a row within its branch, by node. */
export interface BranchTokens {
  readonly trace: string;
  /** Of the branches of the trace. */
  readonly branch: number;
  /** The trace's number of each node with sampled tokens, where it ends in the branch, how many it sampled. */
  readonly nodes: readonly number[];
  readonly ends: readonly number[];
  readonly counts: readonly number[];
  /** Of each sampled token. */
  readonly places: Int32Array;
}

interface Update {
  readonly advantage: number | undefined;
  readonly branches: ReadonlyMap<number, Readonly<Record<string, unknown>>>;
}

/** An entry of the index: the file, and the bytes of the line. */
type Place = readonly [file: number, begin: number, end: number];

/** What an entry takes, about. */
const ENTRY_BYTES = 256;

const STREAMS = ['advantages', 'trainer_logprobs', 'entropies', 'is_masked'] as const;
type Stream = (typeof STREAMS)[number];

/** Values of the sampled tokens, by node. */
type NodeValues = Record<Stream, Map<number, Float64Array>>;

const LINE_END = 0x0a;

export class TraceAnnotations implements Annotations {
  readonly notes: string[] = [];
  readonly #files: LineFile[] = [];
  readonly #places = new Map<string, Place[]>();
  #turn: Promise<unknown> = Promise.resolve();

  /** @param folder of the producers, which may be missing */
  static async open(folder: string, maxMemory: number | undefined, signal?: AbortSignal): Promise<TraceAnnotations> {
    const found = new TraceAnnotations();
    if (isRemote(folder)) {
      found.notes.push("prime-rl's annotations (advantages, log-probs of the trainer) are read from disks alone");
      return found;
    }
    const names = await readdir(folder, { recursive: true }).catch(() => [] as string[]);
    const chunks = names.filter((name) => /\.jsonl(\.zst|\.gz)?$/.test(name) && !/index/.test(name)).sort(naturalOrder);
    for (const chunk of chunks) {
      const plain = chunk.replace(/\.(zst|gz)$/, '');
      // A chunk that is being sealed lies there twice.
      if (plain !== chunk && chunks.includes(plain)) continue;
      await found.#index(join(folder, chunk), maxMemory, signal);
    }
    return found;
  }

  async #index(path: string, maxMemory: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    const file = await LineFile.open(path, signal, maxMemory);
    const number = this.#files.push(file) - 1;
    const fields = new JsonFields(['trace_id'], ['trace_id']);
    for await (const { bytes, offset } of file.blocks(0, Number.POSITIVE_INFINITY, signal)) {
      for (let begin = 0; begin < bytes.length; ) {
        const found = bytes.indexOf(LINE_END, begin);
        // The last line may be one that is being written.
        if (found < 0) break;
        const trace = traceOf(fields, bytes, begin, found);
        if (trace !== undefined) {
          const places = this.#places.get(trace) ?? [];
          this.#places.set(trace, places);
          places.push([number, offset + begin, offset + found]);
        }
        begin = found + 1;
      }
      giveBack(bytes.buffer);
      if (maxMemory !== undefined && this.#places.size * ENTRY_BYTES > maxMemory) {
        this.#places.clear();
        this.notes.push(`its annotations are of more traces than --max-memory has room for: they are left out`);
        return;
      }
    }
  }

  async fold(rows: AnnotatedRows, signal: AbortSignal | undefined): Promise<void> {
    const marks = rows.column<BranchTokens>('annotated');
    if (marks === undefined || this.#places.size === 0) return;
    const traces = new Set(marks.flatMap((mark) => mark?.trace ?? []));
    // Steps take turns: a compressed file is read at one place at a time.
    const reading = this.#turn.then(() => this.#updatesOf(traces, signal));
    this.#turn = reading.catch(() => undefined);
    const updates = await reading;
    if (updates.size === 0) return;
    const byTrace = new Map<string, Map<number, BranchTokens>>();
    for (const mark of marks) {
      if (mark === undefined || !updates.has(mark.trace)) continue;
      const branches = byTrace.get(mark.trace) ?? new Map<number, BranchTokens>();
      byTrace.set(mark.trace, branches.set(mark.branch, mark));
    }
    const folded = new Map(
      [...byTrace].map(([trace, branches]) => [trace, foldNodes(updates.get(trace) ?? [], branches)]),
    );
    const valuesOf = (row: number, stream: Stream): Float64Array | undefined => {
      const mark = marks[row];
      const nodes = mark && folded.get(mark.trace)?.[stream];
      return mark && nodes && alongBranch(mark, nodes);
    };
    const put = <T>(
      name: 'advantage' | 'masked' | 'trainerLogprobs' | 'entropy',
      of: (row: number) => T | undefined,
    ): void => {
      const logged = rows.column<T>(name);
      rows.put(
        name,
        marks.map((_, row) => of(row) ?? logged?.[row]),
      );
    };
    put('trainerLogprobs', (row) => valuesOf(row, 'trainer_logprobs'));
    put('entropy', (row) => meanOf(valuesOf(row, 'entropies')));
    put('masked', (row) => meanOf(valuesOf(row, 'is_masked')?.filter((value) => !Number.isNaN(value))));
    put('advantage', (row) => {
      const mean = meanOf(valuesOf(row, 'advantages'));
      return (
        mean ?? updates.get(marks[row]?.trace ?? '')?.findLast(({ advantage }) => advantage !== undefined)?.advantage
      );
    });
  }

  async close(): Promise<void> {
    for (const file of this.#files) await file.close();
  }

  /** In the order in which they were written. */
  async #updatesOf(traces: ReadonlySet<string>, signal: AbortSignal | undefined): Promise<Map<string, Update[]>> {
    const wanted = [...traces].flatMap((trace) => (this.#places.get(trace) ?? []).map((place) => ({ trace, place })));
    wanted.sort(({ place: a }, { place: b }) => a[0] - b[0] || a[1] - b[1]);
    const updates = new Map<string, Update[]>();
    for (const {
      trace,
      place: [file, begin, end],
    } of wanted) {
      const pieces: Buffer[] = [];
      for await (const { bytes } of (this.#files[file] as LineFile).blocks(begin, end, signal)) pieces.push(bytes);
      const update = updateOf(Buffer.concat(pieces));
      if (update !== undefined) updates.set(trace, [...(updates.get(trace) ?? []), update]);
    }
    return updates;
  }
}

function traceOf(fields: JsonFields, bytes: Buffer, begin: number, end: number): string | undefined {
  try {
    return fields.read(bytes, begin, end).id('trace_id');
  } catch (error) {
    if (error instanceof LineProblem) return undefined;
    throw error;
  }
}

/** Undefined for a line that is none: others are still good. */
function updateOf(line: Buffer): Update | undefined {
  try {
    const update = fieldsOf(parseJsonLine(line.toString('utf8')), 'update');
    const branches = (update.list('branches') ?? []).map((value, at) => fieldsOf(value, `branches[${at}]`));
    const streams = branches.map((branch) => {
      const named = STREAMS.map((stream) => [stream, branch.list(stream)] as const);
      return [branch.count('index') ?? -1, Object.fromEntries(named)] as const;
    });
    return { advantage: update.object('info').number('advantage'), branches: new Map(streams) };
  } catch (error) {
    if (error instanceof LineProblem || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** As fold_trace_updates: the newest stream that covers a node counts there, whichever branch it came for. */
function foldNodes(updates: readonly Update[], branches: ReadonlyMap<number, BranchTokens>): NodeValues {
  const values = Object.fromEntries(STREAMS.map((stream) => [stream, new Map()])) as NodeValues;
  for (const update of updates) {
    for (const [index, streams] of update.branches) {
      const mark = branches.get(index);
      if (mark === undefined) continue;
      for (const stream of STREAMS) {
        const list = streams[stream] as readonly unknown[] | undefined;
        if (list !== undefined) takeStream(list, mark, values[stream], stream === 'is_masked');
      }
    }
  }
  return values;
}

function takeStream(
  list: readonly unknown[],
  { nodes, ends, counts, places }: BranchTokens,
  into: Map<number, Float64Array>,
  mayHaveGaps: boolean,
): void {
  let at = 0;
  for (const [segment, node] of nodes.entries()) {
    const count = counts[segment] as number;
    if ((ends[segment] as number) > list.length) return;
    const found = Float64Array.from(places.subarray(at, at + count), (place) => numberIn(list[place]));
    const known = found.filter((value) => !Number.isNaN(value)).length;
    if (known === count || (mayHaveGaps && known > 0)) into.set(node, found);
    at += count;
  }
}

function numberIn(value: unknown): number {
  if (typeof value === 'boolean') return value ? 1 : 0;
  return typeof value === 'number' ? value : Number.NaN;
}

/** NaN at nodes that have no values; undefined where none has. */
function alongBranch(
  { nodes, counts, places }: BranchTokens,
  values: ReadonlyMap<number, Float64Array>,
): Float64Array | undefined {
  if (!nodes.some((node) => values.has(node))) return undefined;
  const found = new Float64Array(places.length).fill(Number.NaN);
  let at = 0;
  for (const [segment, node] of nodes.entries()) {
    found.set(values.get(node) ?? [], at);
    at += counts[segment] as number;
  }
  return found;
}

/** Undefined where a value is missing, or there is none. */
function meanOf(values: Float64Array | undefined): number | undefined {
  if (values === undefined || values.length === 0) return undefined;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Number.isNaN(mean) ? undefined : mean;
}
