// A state: what some steps of a manifest gave, wherever they were measured. Lines in the order of the runs and, in a
// run, of the steps: one a step, and after the run's last step here one with the aggregates over them. Any set of steps
// has exactly one state, to the byte, so that the way states were merged cannot be seen.
import { type FileError, StateError } from '../../checks/errors.js';
import { isCount } from '../../checks/saved-shape.js';
import { printable } from '../../checks/words.js';
import { Aggregates } from '../aggregates/aggregates.js';
import { measurementFrom } from '../measuring/measurement-from.js';
import type { StepMeasurement } from '../measuring/step-measurement.js';
import { parseLossless, stringifyLossless } from '../results/lossless-json.js';
import { type CheckedLine, CheckedLines } from './checked-lines.js';
import type { PlannedStep } from './manifest.js';
import { failedPath, problemAt, type SavedProblem, savedProblem, sidecarOf } from './saved-problem.js';

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
   * @throws {StateError} when it is no state, or of another version; {FileError} when it cannot be read
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

async function readHeader(lines: CheckedLines): Promise<StateHeader> {
  const { format, version, manifest, steps, first, last, firstRun } = await lines.head();
  if (format !== FORMAT)
    throw new StateError(`${lines.path}: this is no state: name what collapsar map or merge wrote`);
  if (version !== VERSION) {
    const came = printable(String(JSON.stringify(version)));
    throw new StateError(
      `${lines.path}: a state of version ${came}, this release reads ${VERSION}: map its steps again`,
    );
  }
  const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= -1;
  const whole = isWhole(steps) && isWhole(first) && isWhole(last) && isWhole(firstRun);
  if (typeof manifest !== 'string' || !whole) throw lines.damaged('its first line');
  const span = last - first + 1;
  if (
    steps > 0 ? steps > span || first < 0 || firstRun < 0 : steps < 0 || first !== -1 || last !== -1 || firstRun !== -1
  ) {
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

/** What a step's line holds: what was measured, or why nothing was. */
export function stepOutcome(line: StateLine, step: PlannedStep, state: StateReader): StepMeasurement | FileError {
  const { measurement, failure } = parsed(line, state) as Record<string, unknown>;
  if (failure === undefined) {
    try {
      return measurementFrom(measurement, step.step);
    } catch (error) {
      if (error instanceof StateError)
        throw state.damaged(`entry ${step.index} of the manifest, ${step.file}: ${error.message}`);
      throw error;
    }
  }
  const { sidecar } = Object(failure) as Partial<Record<keyof SavedProblem, unknown>>;
  const isNamed = sidecar === undefined || typeof sidecar === 'string';
  const error = isNamed ? problemAt(failedPath(step, sidecar), failure) : undefined;
  if (error === undefined) throw state.damaged(`the failure of entry ${step.index} of the manifest, ${step.file}`);
  return error;
}

export function runAggregates(line: StateLine, state: StateReader): RunAggregates {
  const { name, directory, steps, failures, aggregates } = parsed(line, state) as Record<string, unknown>;
  if (typeof name !== 'string' || typeof directory !== 'string' || !isCount(steps) || !isCount(failures)) {
    throw state.damaged(`the aggregates of run ${line.run}`);
  }
  try {
    return { name, directory, steps, failures, aggregates: Aggregates.from(aggregates) };
  } catch (error) {
    if (error instanceof StateError) throw state.damaged(error.message);
    throw error;
  }
}

function parsed({ bytes }: StateLine, state: StateReader): unknown {
  try {
    return parseLossless(bytes.toString());
  } catch (error) {
    if (error instanceof StateError) throw state.damaged(error.message);
    throw error;
  }
}
