// States in, their steps and runs in order out, in memory that does not grow with the number of steps: each state is
// opened when its first step is due, and closed after its last.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, StateError } from '../../checks/errors.js';
import { errorCode, systemProblem } from '../../logs/stores/system-problem.js';
import { STATE_EXTENSION, STATES } from './completion.js';
import {
  NO_STEPS,
  type RunAggregates,
  runAggregates,
  type StateHeader,
  type StateLine,
  StateReader,
} from './state-file.js';

export type MergedLine =
  | (Extract<StateLine, { kind: 'step' }> & { readonly state: StateReader })
  | { readonly kind: 'run'; readonly run: number; readonly aggregates: RunAggregates };

interface Source {
  readonly path: string;
  readonly header: StateHeader;
}

interface Open {
  readonly state: StateReader;
  head: StateLine;
}

export class StateMerge {
  /** By their first step. */
  readonly #sources: readonly Source[];
  /** What the header of the merged state is. */
  readonly header: StateHeader;

  private constructor(sources: readonly Source[], header: StateHeader) {
    this.#sources = sources;
    this.header = header;
  }

  /**
   * Reads the first line of each state.
   * @throws {StateError} unless all are states of one manifest; {FileError} when one cannot be read
   */
  static async open(paths: readonly string[]): Promise<StateMerge> {
    const sources: Source[] = [];
    for (const path of paths) {
      const state = await StateReader.open(path);
      sources.push({ path, header: state.header });
      await state.close();
      const [one] = sources as [Source];
      if (state.header.manifest !== one.header.manifest) {
        throw new StateError(`${one.path} and ${path} are of different manifests: merge the states of one`);
      }
    }
    return new StateMerge(sources.sort(byFirstStep), mergedHeader(sources));
  }

  get paths(): string[] {
    return this.#sources.map(({ path }) => path);
  }

  /** How many states have to be open at a time. */
  get overlap(): number {
    const ends: number[] = [];
    let most = 0;
    for (const { header } of this.#sources) {
      if (header.steps === 0) continue;
      const closed = ends.findIndex((end) => end < header.first);
      if (closed < 0) ends.push(header.last);
      else ends[closed] = header.last;
      most = Math.max(most, ends.length);
    }
    return most;
  }

  /**
   * Every step, by run and index, and after the steps of each run its aggregates.
   * @throws {StateError} when a state is damaged, or a step comes twice: then nothing that came before counts
   */
  async *lines(): AsyncGenerator<MergedLine, void, undefined> {
    const waiting = [...this.#sources];
    const open: Open[] = [];
    let last: { index: number; path: string } | undefined;
    let run: { run: number; aggregates: RunAggregates | undefined } | undefined;
    try {
      for (;;) {
        await openDue(waiting, open);
        const due = open.reduce((a, b) => (comesBefore(b.head, a.head) ? b : a), open[0] as Open);
        if (due === undefined || due.head.run !== run?.run) {
          if (run?.aggregates !== undefined) yield { kind: 'run', run: run.run, aggregates: run.aggregates };
          if (due === undefined) return;
          run = { run: due.head.run, aggregates: undefined };
        }
        const { head, state } = due;
        if (head.kind === 'step') {
          if (last !== undefined && head.index <= last.index) throw twice(head, state, last);
          last = { index: head.index, path: state.path };
          yield { ...head, state };
        }
        // Aggregates are taken in as soon as they come, so that a state does not stay open to the end of its run.
        for (let next = await state.next(); ; next = await state.next()) {
          if (next === undefined) {
            await state.close();
            open.splice(open.indexOf(due), 1);
            break;
          }
          due.head = next;
          if (next.kind === 'step') break;
          run.aggregates = together(run.aggregates, runAggregates(next, state), state);
        }
      }
    } finally {
      for (const { state } of open) await state.close();
    }
  }
}

function byFirstStep({ header: a, path: left }: Source, { header: b, path: right }: Source): number {
  return a.firstRun - b.firstRun || a.first - b.first || (left < right ? -1 : 1);
}

/** @param sources at least one; of a petabyte in small shards more than a call can have arguments */
export function mergedHeader(sources: readonly Pick<Source, 'header'>[]): StateHeader {
  const [one] = sources as [Source];
  let merged: StateHeader = { manifest: one.header.manifest, ...NO_STEPS };
  for (const { header } of sources) {
    if (header.steps === 0) continue;
    merged = merged.steps === 0 ? header : spanOf(merged, header);
  }
  return merged;
}

function spanOf(a: StateHeader, b: StateHeader): StateHeader {
  return {
    manifest: a.manifest,
    steps: a.steps + b.steps,
    first: Math.min(a.first, b.first),
    last: Math.max(a.last, b.last),
    firstRun: Math.min(a.firstRun, b.firstRun),
  };
}

/**
 * Opens what begins before everything that is open. A state without steps is read to its end: it may be damaged too.
 */
async function openDue(waiting: Source[], open: Open[]): Promise<void> {
  for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
    const { firstRun, first, steps } = next.header;
    const isDue =
      steps === 0 || open.every(({ head }) => !comesBefore(head, { kind: 'step', run: firstRun, index: first }));
    if (!isDue) return;
    waiting.shift();
    const state = await StateReader.open(next.path);
    let head: StateLine | undefined;
    try {
      head = await state.next();
    } finally {
      if (head === undefined) await state.close();
    }
    if (head !== undefined) open.push({ state, head });
  }
}

type Place =
  | { readonly kind: 'step'; readonly run: number; readonly index: number }
  | { readonly kind: 'run'; readonly run: number };

function comesBefore(a: Place, b: Place): boolean {
  if (a.run !== b.run) return a.run < b.run;
  return a.kind === 'step' && (b.kind === 'run' || a.index < b.index);
}

function together(some: RunAggregates | undefined, more: RunAggregates, state: StateReader): RunAggregates {
  if (some === undefined) return more;
  if (some.name !== more.name || some.directory !== more.directory)
    throw state.damaged('its runs are not those of the others');
  some.aggregates.merge(more.aggregates);
  return { ...some, steps: some.steps + more.steps, failures: some.failures + more.failures };
}

function twice({ index }: { index: number }, state: StateReader, last: { index: number; path: string }): StateError {
  if (index < last.index) return state.damaged(`entry ${index} of the manifest is of another run than in ${last.path}`);
  return new StateError(
    `entry ${index} of the manifest is in ${last.path} and in ${state.path}: a step counts once; leave out one of the two, ` +
      'or merge states that have no step in common',
  );
}

/**
 * The states that a path names: a file is one; a directory stands for the states in it, or in its `shards`.
 * @throws {FileError} when there is nothing there
 */
export async function statePaths(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const shards = join(path, STATES);
    const isOutput = await stat(shards).then(
      (found) => found.isDirectory(),
      () => false,
    );
    const directory = isOutput ? shards : path;
    const names = (await readdir(directory)).filter((name) => name.endsWith(STATE_EXTENSION) && !name.startsWith('.'));
    if (names.length > 0) return names.sort().map((name) => join(directory, name));
  } catch (error) {
    const advice = errorCode(error) === 'ENOENT' ? ': collapsar map writes states' : '';
    throw new FileError({ path }, systemProblem(error) + advice, { cause: error });
  }
  throw new FileError(
    { path },
    `there is no *${STATE_EXTENSION} file here: run collapsar map with --out ${path} first`,
  );
}
