// A state: what some steps of a manifest gave, measured on any machine. Lines in the order of the runs and, in a
// run, of the steps: one a step, and after the run's last step here one with the aggregates over them. Any set of steps
// has exactly one state, to the byte, so that the way states were merged cannot be seen.
import { type FileError, StateError } from '../../checks/errors.js';
import { count, fields, readPart, shape, text } from '../../checks/saved.js';
import { printable } from '../../checks/words.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import { Aggregates } from '../aggregates/aggregates.js';
import { measurementFrom } from '../measuring/measurement-from.js';
import { parseLossless, stringifyLossless } from '../results/lossless-json.js';
import { type CheckedLine, CheckedLines } from './checked-lines.js';
import type { PlannedStep } from './manifest.js';
import {
  failedPath,
  problemAt,
  type SavedProblem,
  savedProblem,
  savedProblemShape,
  sidecarOf,
} from './saved-problem.js';

const FORMAT = 'collapsar/state';
const VERSION = 1;
const ADVICE = 'remove it, and run collapsar map or merge again for what it held';

/** The first line. */
export interface StateHeader {
  /** Digest of the manifest. */
  readonly manifest: string;
  /** How many steps, failed ones included. */
  readonly steps: number;
  /** Indices of the first and the last of them; −1 in a state without steps. */
  readonly first: number;
  readonly last: number;
  /** Number of the first one's run. */
  readonly firstRun: number;
}

/** Statistics over the steps of a run that are in a state. */
export interface RunAggregates {
  readonly name: string;
  /** As in the manifest. */
  readonly directory: string;
  /** Measured steps of the run in this state. */
  readonly steps: number;
  readonly failures: number;
  readonly aggregates: Aggregates;
}

export const NO_STEPS = { steps: 0, first: -1, last: -1, firstRun: -1 } as const;

export function headerLine(header: StateHeader): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, ...header });
}

export function measuredLine({ index, runNumber }: PlannedStep, measurement: StepMeasurement): string {
  return `${stepStart(runNumber, index)}"measurement":${stringifyLossless(measurement)}}`;
}

/** @param failure under the step's `file`, or beside it */
export function failedLine(step: PlannedStep, failure: FileError): string {
  const sidecar = sidecarOf(failure, { ...step, path: step.file });
  const saved: SavedProblem = { ...savedProblem(failure), ...(sidecar !== undefined && { sidecar }) };
  return `${stepStart(step.runNumber, step.index)}"failure":${stringifyLossless(saved)}}`;
}

function stepStart(run: number, index: number): string {
  return `{"run":${run},"index":${index},`;
}

const STEP_START = /^\{"run":(0|[1-9][0-9]{0,14}),"index":(0|[1-9][0-9]{0,14}),"(measurement|failure)":/;

export function aggregatesLine(run: number, { name, directory, steps, failures, aggregates }: RunAggregates): string {
  const rest = stringifyLossless({ name, directory, steps, failures, aggregates: aggregates.toJSON() });
  return `{"run":${run},${rest.slice(1)}`;
}

const RUN_START = /^\{"run":(0|[1-9][0-9]{0,14}),"name":/;

/** What the last line says beside the checksum. */
export function lastLineStart(counts: {
  readonly steps: number;
  readonly failures: number;
  readonly runs: number;
}): string {
  const { steps, failures, runs } = counts;
  return `${JSON.stringify({ steps, failures, runs }).slice(0, -1)},`;
}

export type StateLine =
  | {
      readonly kind: 'step';
      readonly run: number;
      readonly index: number;
      readonly failed: boolean;
      readonly bytes: Buffer;
    }
  | { readonly kind: 'run'; readonly run: number; readonly bytes: Buffer };

/** One state, read through once in constant memory. */
export class StateReader {
  readonly #lines: CheckedLines;
  #counts = { steps: 0, failures: 0, runs: 0 };
  #index = -1;
  #run = -1;
  /** Whether steps of the run came, and not yet its aggregates. */
  #runOpen = false;

  private constructor(
    lines: CheckedLines,
    readonly header: StateHeader,
  ) {
    this.#lines = lines;
  }

  /**
   * Reads the first line; the rest is read and checked by `next`.
   * @throws {StateError} unless it is a state of this version; {FileError} when it cannot be read
   */
  static async open(path: string): Promise<StateReader> {
    const lines = await CheckedLines.open(path, ADVICE);
    try {
      return new StateReader(lines, await readHeader(lines));
    } catch (error) {
      await lines.close();
      throw error;
    }
  }

  get path(): string {
    return this.#lines.path;
  }

  /** Steps (failed ones included), failed steps and runs passed so far. */
  get counts(): Readonly<{ steps: number; failures: number; runs: number }> {
    return this.#counts;
  }

  /** SHA-256 of the state; undefined before its end was reached. */
  get digest(): string | undefined {
    return this.#lines.digest;
  }

  /** @throws {StateError} for anything but the next line of a whole state: then nothing that came before counts */
  async next(): Promise<StateLine | undefined> {
    const line = await this.#lines.next();
    if (line === undefined) return undefined;
    if (this.digest !== undefined) {
      await this.#end(line);
      return undefined;
    }
    const found = stateLine(line);
    if (found === undefined || !this.#follows(found)) {
      throw this.damaged(`a line that does not belong here: ${printable(line.start)}`);
    }
    this.#run = found.run;
    this.#runOpen = found.kind === 'step';
    if (found.kind === 'run') {
      this.#counts.runs++;
    } else {
      this.#index = found.index;
      this.#counts.steps++;
      if (found.failed) this.#counts.failures++;
    }
    return found;
  }

  damaged(problem: string): StateError {
    return this.#lines.damaged(problem);
  }

  async close(): Promise<void> {
    await this.#lines.close();
  }

  #follows(line: StateLine): boolean {
    if (line.kind === 'run') return this.#runOpen && line.run === this.#run;
    if (this.#index < 0) return line.index === this.header.first && line.run === this.header.firstRun;
    return line.index > this.#index && (this.#runOpen ? line.run === this.#run : line.run > this.#run);
  }

  async #end({ bytes }: CheckedLine): Promise<void> {
    const { steps, last } = this.header;
    if (bytes.toString() !== lastLineStart(this.#counts)) throw this.damaged('its last line does not fit the others');
    if (this.#runOpen || this.#counts.steps !== steps || this.#index !== last) throw this.damaged('steps are missing');
    if ((await this.#lines.next()) !== undefined) throw this.damaged('it goes on after its last line');
  }
}

const fromMinusOne = shape<number>(
  'a whole number from -1 on',
  (value) => Number.isSafeInteger(value) && (value as number) >= -1,
);

const headerShape = fields({
  manifest: text,
  steps: count,
  first: fromMinusOne,
  last: fromMinusOne,
  firstRun: fromMinusOne,
});

async function readHeader(lines: CheckedLines): Promise<StateHeader> {
  const head = await lines.head();
  const { format, version } = head;
  if (format !== FORMAT)
    throw new StateError(`${lines.path}: this is no state: name what collapsar map or merge wrote`);
  if (version !== VERSION) {
    const came = printable(String(JSON.stringify(version)));
    throw new StateError(
      `${lines.path}: a state of version ${came}, this release reads ${VERSION}: map its steps again`,
    );
  }
  const { manifest, steps, first, last, firstRun } = lines.read('its first line', () => headerShape(head));
  const span = last - first + 1;
  if (steps > 0 ? steps > span || first < 0 || firstRun < 0 : first !== -1 || last !== -1 || firstRun !== -1) {
    throw lines.damaged('its first line');
  }
  return { manifest, steps, first, last, firstRun };
}

function stateLine({ bytes, start }: CheckedLine): StateLine | undefined {
  const step = STEP_START.exec(start);
  if (step !== null) {
    const [, run, index, kind] = step;
    return { kind: 'step', run: Number(run), index: Number(index), failed: kind === 'failure', bytes };
  }
  const run = RUN_START.exec(start);
  return run === null ? undefined : { kind: 'run', run: Number(run[1]), bytes };
}

const runShape = fields({ name: text, directory: text, steps: count, failures: count });

/** What a step's line holds: what was measured, or why nothing was. */
export function stepOutcome(line: StateLine, step: PlannedStep, state: StateReader): StepMeasurement | FileError {
  return readLine(
    line,
    state,
    ({ measurement, failure }) => {
      if (failure === undefined) return measurementFrom(measurement, step.step);
      const problem = readPart(failure, 'failure', savedProblemShape);
      return problemAt(failedPath(step, problem.sidecar), problem);
    },
    `entry ${step.index} of the manifest, ${step.file}`,
  );
}

export function runAggregates(line: StateLine, state: StateReader): RunAggregates {
  return readLine(
    line,
    state,
    (saved) => {
      return { ...runShape(saved), aggregates: Aggregates.from(saved.aggregates) };
    },
    `run ${line.run}`,
  );
}

/** @param what it is of, for what is damaged */
function readLine<T>(
  { bytes }: StateLine,
  state: StateReader,
  read: (saved: Readonly<Record<string, unknown>>) => T,
  what: string,
): T {
  try {
    return read(parseLossless(bytes.toString()) as Record<string, unknown>);
  } catch (error) {
    throw error instanceof StateError ? state.damaged(`${what}: ${error.message}`) : error;
  }
}
