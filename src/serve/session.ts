// Answers the requests of one client's monitor. Knows nothing of lines and streams (docs/reference/sidecar.md).
import { checkFields } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { is, optionsObject } from '../checks/options.js';
import { packageVersion } from '../checks/package-version.js';
import { shown } from '../checks/words.js';
import type { DeviceImport } from '../engine/device/device-import.js';
import type { Tensor } from '../engine/tensor/tensor.js';
import type { TextStep } from '../metrics/text-metrics.js';
import { Monitor } from '../monitor/monitor.js';
import type { MonitorOptions } from '../monitor/monitor-options.js';
import type { MonitorStep } from '../monitor/monitor-step.js';
import type { StepLabels } from '../monitor/outcomes/step-labels.js';
import type { StepOutcomes } from '../monitor/outcomes/step-outcomes.js';
import type { RolloutRows } from '../monitor/rollout-texts.js';
import type { Sink } from '../monitor/sinks/sink.js';
import type { StepReport } from '../step/step-report.js';
import { PROTOCOL, ProtocolError } from './answers.js';
import type { Engines } from './engines.js';
import { type ScoreFile, sumsOfFile } from './file-scores.js';
import { type PlainJson, plainJson } from './plain-json.js';

/** A request without its `id`: its operation and what belongs to it. */
export interface Request {
  readonly op: string;
  readonly [field: string]: unknown;
}

export type Answer = Readonly<Record<string, PlainJson>>;

interface OpenStep {
  readonly step: MonitorStep;
  readonly labels: Pick<StepLabels, 'groups' | 'columnGroups' | 'promptTokens' | 'environments'>;
  readonly lengths: readonly number[];
}

/** What all monitors of a sidecar share. */
export interface Outlets {
  /** Where every monitor's reports go besides. */
  readonly sinks?: readonly Sink[];
  /** What the first answer says besides. */
  readonly introduction?: Answer;
}

type Operation = (request: Request) => Promise<Answer>;

/** Steps that are open side by side; each holds its scores, and a client that finishes none must not fill the memory. */
const MOST_OPEN = 32;

const LABELS = ['groups', 'lengths', 'columnGroups', 'promptTokens', 'episodes', 'turns', 'environments', 'due'];

export class Session {
  readonly #engines: Engines;
  readonly #signal: AbortSignal;
  readonly #outlets: Outlets;
  #monitor: Monitor | undefined;
  /** By number; `#latest` is the one that was opened last. */
  readonly #steps = new Map<number, OpenStep>();
  #latest: number | undefined;
  #answered = false;
  #closed = false;

  readonly #operations: Readonly<Record<string, { readonly fields: readonly string[]; readonly run: Operation }>> = {
    open: { fields: ['protocol', 'options', 'state'], run: (request) => this.#openMonitor(request) },
    restore: { fields: ['options', 'state'], run: (request) => this.#restore(request) },
    step: { fields: ['step', ...LABELS], run: (request) => this.#openStep(request) },
    score: { fields: ['step', 'prompt', 'rows', 'sums', 'file', 'ipc'], run: (request) => this.#score(request) },
    rollouts: { fields: ['step', 'rows', 'outcomes'], run: (request) => this.#rollouts(request) },
    buckets: { fields: ['step', 'outcomes'], run: (request) => this.#buckets(request) },
    finish: { fields: ['step', 'outcomes'], run: (request) => this.#finish(request) },
    abort: { fields: ['step'], run: (request) => this.#abort(request) },
    save: { fields: [], run: async () => ({ state: this.#expectMonitor().save() as unknown as PlainJson }) },
    close: { fields: [], run: () => this.#close() },
  };

  /** @param signal aborted when answers are not wanted any more */
  constructor(engines: Engines, signal: AbortSignal, outlets: Outlets = {}) {
    this.#outlets = outlets;
    this.#engines = engines;
    this.#signal = signal;
  }

  /** Whether the client has said that it is done. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Answers one request; the next may be given when this one is answered. Where it fails, all is as it was.
   * @throws {ProtocolError} for an operation that is unknown, or cannot be had now; whatever the monitor throws
   */
  async answer(request: Request): Promise<Answer> {
    const operation = Object.hasOwn(this.#operations, request.op) ? this.#operations[request.op] : undefined;
    if (operation === undefined) {
      const known = Object.keys(this.#operations).join(', ');
      throw new ProtocolError(`unknown operation ${shown(request.op)}; known are ${known}, ping`);
    }
    const { op: _, ...fields } = request;
    checkFields(fields, 'request', operation.fields);
    const answer = await operation.run(request);
    return this.introduced(answer);
  }

  /** The first answer of a session says who speaks. */
  introduced(answer: Answer): Answer {
    if (this.#answered) return answer;
    this.#answered = true;
    return { protocol: PROTOCOL, collapsar: packageVersion(), ...this.#outlets.introduction, ...answer };
  }

  /** After the last answer: what the sinks do not have yet is given to them. */
  async end(): Promise<void> {
    await this.#monitor?.dispose();
  }

  async #openMonitor({ protocol, options, state }: Request): Promise<Answer> {
    if (protocol !== undefined && protocol !== PROTOCOL) {
      throw new ProtocolError(
        `the client speaks protocol ${shown(protocol)}, and collapsar ${packageVersion()} speaks ${PROTOCOL}: install the ` +
          'Python package and the command of one release',
      );
    }
    // A client may have asked with options that it could not know all of yet.
    const isUnused = this.#monitor?.lastStep === null && this.#steps.size === 0;
    if (this.#monitor !== undefined && !isUnused) {
      throw new ProtocolError('a monitor is open already, and has taken steps; restore replaces it');
    }
    const monitor = await this.#newMonitor(options, state);
    await this.#monitor?.dispose();
    this.#monitor = monitor;
    return this.#described();
  }

  async #restore({ options, state }: Request): Promise<Answer> {
    if (state === undefined) throw new ArgumentError('state', 'missing: give what save answered');
    const monitor = await this.#newMonitor(options, state);
    for (const { step } of this.#steps.values()) step.abort(new ProtocolError('the monitor was restored'));
    this.#steps.clear();
    this.#latest = undefined;
    await this.#monitor?.dispose();
    this.#monitor = monitor;
    return this.#described();
  }

  async #newMonitor(options: unknown, state: unknown): Promise<Monitor> {
    const given = optionsObject(options ?? {}, 'options');
    if ('engine' in given || 'threads' in given) {
      throw new ArgumentError('options', 'engine and threads are the process’s: start it with --threads');
    }
    if ('sinks' in given) throw new ArgumentError('options.sinks', 'these are the process’s: start it with --to');
    const all = { ...(given as MonitorOptions), engine: await this.#engines.get('cpu'), sinks: this.#outlets.sinks };
    return state === undefined || state === null ? new Monitor(all) : Monitor.restore(state, all);
  }

  #described(): Answer {
    const { options, lastStep } = this.#expectMonitor();
    return { options: plainJson(options).value, lastStep };
  }

  #expectMonitor(): Monitor {
    if (this.#monitor === undefined) throw new ProtocolError('no monitor is open: begin with open');
    return this.#monitor;
  }

  async #openStep(request: Request): Promise<Answer> {
    const monitor = this.#expectMonitor();
    const { op: _, step: number, ...labels } = request;
    const step = monitor.step(number as number, labels as unknown as StepLabels);
    this.#hold(step, labels as unknown as StepLabels, (labels.lengths ?? []) as readonly number[]);
    const pairs = step.pairs().byPrompt.map(({ prompt, rows }) => ({ prompt, rows: Array.from(rows) }));
    return { due: step.due, pairs };
  }

  /** A step that was open under the same number is given up, and the oldest where more are open than anyone scores. */
  #hold(step: MonitorStep, labels: OpenStep['labels'], lengths: readonly number[]): OpenStep {
    this.#steps.get(step.number)?.step.abort(new ProtocolError(`step ${step.number} was opened again`));
    const open: OpenStep = { step, labels, lengths };
    this.#steps.delete(step.number);
    this.#steps.set(step.number, open);
    this.#latest = step.number;
    const [oldest] = this.#steps.values();
    if (this.#steps.size > MOST_OPEN && oldest !== undefined) {
      oldest.step.abort(
        new ProtocolError(`step ${oldest.step.number} was given up: ${MOST_OPEN} others were opened since`),
      );
      this.#forget(oldest);
    }
    return open;
  }

  /** The step that a request names; the one opened last where it names none. */
  #expectStep(number: unknown): OpenStep {
    this.#expectMonitor();
    const open = this.#steps.get((number ?? this.#latest) as number);
    if (open !== undefined) return open;
    const numbers = [...this.#steps.keys()];
    const what = number === undefined || number === null ? 'no step is open' : `step ${shown(number)} is not open`;
    const which =
      numbers.length > 0 ? `; open are ${numbers.join(', ')} (at most ${MOST_OPEN})` : '; open one with step';
    throw new ArgumentError('step', what + which);
  }

  #forget({ step }: OpenStep): void {
    this.#steps.delete(step.number);
    if (this.#latest === step.number) this.#latest = [...this.#steps.keys()].at(-1);
  }

  async #score({ step: number, prompt, rows, sums, file, ipc }: Request): Promise<Answer> {
    const open = this.#expectStep(number);
    const given = Object.entries({ sums, file, ipc }).filter(([, value]) => value !== undefined);
    const [first, second] = given;
    if (first === undefined || second !== undefined) {
      throw new ArgumentError('score', 'give exactly one of sums, file and ipc');
    }
    if (prompt === undefined && rows !== undefined) {
      throw new ArgumentError('rows', 'are those under one prompt: give prompt, too');
    }
    if (prompt !== undefined) is.integer(0)(prompt, 'prompt');
    const column = prompt as number | undefined;
    const rowsGiven = rows === undefined ? undefined : rowIndices(rows);
    if (ipc !== undefined) await this.#scoreOnDevice(open, column, rowsGiven, ipc);
    else if (file !== undefined) await this.#scoreFromFile(open, column, rowsGiven, file);
    else if (column === undefined) await open.step.scoreAll({ sums: matrix(sums) }, { signal: this.#signal });
    else await this.#give(open, column, rowsGiven, numbers(sums, 'sums'));
    return {};
  }

  /** Sums of one prompt: of `rows`, or of all rows or those that are wanted under it, by their count. */
  async #give(open: OpenStep, prompt: number, rows: number[] | undefined, sums: Float64Array): Promise<void> {
    const { step } = open;
    const signal = this.#signal;
    if (rows === undefined) await step.score(prompt, sums, { signal });
    else {
      const column: Tensor = { data: sums, dtype: 'float64', shape: [sums.length, 1] };
      await step.scoreBlock({ prompts: [prompt], rows, sums: column }, { signal });
    }
  }

  async #scoreFromFile(
    open: OpenStep,
    prompt: number | undefined,
    rows: number[] | undefined,
    given: unknown,
  ): Promise<void> {
    const file = optionsObject(given, 'file') as unknown as ScoreFile;
    checkFields(file, 'file', ['path', 'tensor']);
    if (typeof file.path !== 'string') throw new ArgumentError('file.path', `got ${shown(file.path)}, expected a path`);
    const engine = await this.#engines.get('cpu');
    if (prompt === undefined) {
      const sums = await sumsOfFile(engine, file, open.lengths, true, this.#signal);
      await open.step.scoreAll({ sums }, { signal: this.#signal });
      return;
    }
    const lengths = rows === undefined ? open.lengths : rows.map((row) => open.lengths[row] ?? 0);
    const { data } = await sumsOfFile(engine, file, lengths, false, this.#signal);
    await this.#give(open, prompt, rows, data as Float64Array);
  }

  /** Log-probs [P, R, T], or [rows, T] of one prompt, in another process's GPU memory. */
  async #scoreOnDevice(
    open: OpenStep,
    prompt: number | undefined,
    rows: number[] | undefined,
    given: unknown,
  ): Promise<void> {
    const { device = 0, ...source } = optionsObject(given, 'ipc');
    is.integer(0)(device, 'ipc.device');
    const engine = await this.#engines.get(`cuda:${device as number}`);
    const signal = this.#signal;
    const tensor = await engine.importDevice(source as unknown as DeviceImport, { signal });
    try {
      const lengths = rows === undefined ? open.lengths : rows.map((row) => open.lengths[row] ?? 0);
      const { shape, strides } = tensor;
      const logprobs: Tensor =
        prompt === undefined
          ? tensor
          : { data: tensor, dtype: tensor.dtype, shape: [1, ...shape], strides: [0, ...strides] };
      const { sums } = await engine.sumTokens(logprobs, lengths, { signal });
      if (prompt === undefined) await open.step.scoreAll({ sums }, { signal });
      else await this.#give(open, prompt, rows, sums.data as Float64Array);
    } finally {
      await tensor.dispose();
    }
  }

  /** Figures of texts: of a step that is open, or of one that is opened and finished with this, without scores. */
  async #rollouts({ step: number, rows, outcomes }: Request): Promise<Answer> {
    const monitor = this.#expectMonitor();
    const { environments, ...texts } = optionsObject(rows, 'rows') as unknown as TextStep & GivenEnvironments;
    const held = number === undefined || number === null || this.#steps.has(number as number);
    if (held && outcomes !== undefined) throw new ArgumentError('outcomes', 'the step is open: give them to finish');
    let open: OpenStep;
    if (held) {
      open = this.#expectStep(number);
      checkEnvironments(environments, open);
    } else {
      if (texts.groups === undefined) throw new ArgumentError('rows.groups', 'missing: the prompt of each row, by id');
      const groups = groupNumbers(texts.groups);
      const labels = { groups, environments, due: false };
      open = this.#hold(monitor.step(number as number, labels), labels, []);
    }
    try {
      const { value, nonFinite } = plainJson(await open.step.rollouts(ofStep(texts, open), { signal: this.#signal }));
      if (held) return { text: value, nonFinite: nonFinite as PlainJson };
      const report = await this.#report(open, outcomes);
      return { text: value, ...report };
    } catch (error) {
      if (!held) this.#forget(open);
      throw error;
    }
  }

  /** What a trainer takes gradient norms of, before it finishes the step with them. */
  async #buckets({ step: number, outcomes }: Request): Promise<Answer> {
    const { value, nonFinite } = plainJson(this.#expectStep(number).step.buckets(readOutcomes(outcomes)));
    return { buckets: value, nonFinite: nonFinite as PlainJson };
  }

  async #finish({ step: number, outcomes }: Request): Promise<Answer> {
    return this.#report(this.#expectStep(number), outcomes);
  }

  async #report(open: OpenStep, outcomes: unknown): Promise<Answer> {
    const report = await open.step.finish(readOutcomes(outcomes), { signal: this.#signal });
    this.#forget(open);
    const { value, nonFinite } = plainJson(answerOf(report));
    return { report: value, nonFinite: nonFinite as PlainJson };
  }

  async #abort({ step: number }: Request): Promise<Answer> {
    const open = this.#expectStep(number);
    open.step.abort(new ProtocolError(`step ${open.step.number} was given up`));
    this.#forget(open);
    return {};
  }

  async #close(): Promise<Answer> {
    this.#closed = true;
    return {};
  }
}

/** The part of a report that a client gets: what only sinks read is left out. */
function answerOf(report: StepReport): object {
  const { run, remarks, samples, excerpts, prompts, matrix, file, directory, bytes, record, ...told } = report;
  return { ...told, ...(samples.length > 1 && { samples }) };
}

/** The rows as the step takes them: of its own groups, and with token ids with its own prompts' unless others are given. */
function ofStep({ groups: given, ...rows }: TextStep, { labels }: OpenStep): RolloutRows {
  const groups = Array.from(labels.groups as readonly number[]);
  if (given !== undefined && String(groupNumbers(given)) !== String(groups)) {
    throw new ArgumentError('rows.groups', 'not those that the step was opened with: leave them out');
  }
  const { promptTokens } = labels;
  if (rows.tokens === undefined || rows.promptTokens !== undefined || promptTokens === undefined) return rows;
  const ids = (labels.columnGroups as readonly number[] | undefined) ?? [...new Set(groups)].sort((a, b) => a - b);
  const columns = new Map(ids.map((id, column) => [id, column]));
  return { ...rows, promptTokens: groups.map((group) => promptTokens[columns.get(group) as number]) };
}

interface GivenEnvironments {
  readonly environments?: StepLabels['environments'];
}

/** They are the step's: labels in two places could differ. */
function checkEnvironments(given: StepLabels['environments'], { labels }: OpenStep): void {
  if (given === undefined || JSON.stringify(given) === JSON.stringify(labels.environments)) return;
  throw new ArgumentError('rows.environments', 'not those that the step was opened with: give them to step');
}

function rowIndices(rows: unknown): number[] {
  if (!Array.isArray(rows)) throw new ArgumentError('rows', `got ${shown(rows)}, expected an array of indices`);
  for (const [at, row] of rows.entries()) is.integer(0)(row, `rows[${at}]`);
  return rows;
}

/** What JSON writes for numbers that it lacks: null for NaN, and infinities by their names. */
function numbers(values: unknown, argument: string): Float64Array {
  if (!Array.isArray(values)) throw new ArgumentError(argument, `got ${shown(values)}, expected an array of numbers`);
  return Float64Array.from(values, (value: unknown, at) => {
    if (typeof value === 'number') return value;
    if (value === null || value === 'NaN') return Number.NaN;
    if (value === 'Infinity' || value === '-Infinity') return Number(value);
    throw new ArgumentError(`${argument}[${at}]`, `got ${shown(value)}, expected a number, null or "-Infinity"`);
  });
}

/** Rows of sums [R][P] as one tensor. */
function matrix(rows: unknown): Tensor {
  if (!Array.isArray(rows)) throw new ArgumentError('sums', `got ${shown(rows)}, expected rows of sums, [R][P]`);
  const read = rows.map((row, at) => numbers(row, `sums[${at}]`));
  const columns = read[0]?.length ?? 0;
  const data = new Float64Array(read.length * columns);
  for (const [at, row] of read.entries()) {
    if (row.length !== columns) {
      throw new ArgumentError(`sums[${at}]`, `has ${row.length} sums, expected ${columns} as in the rows before`);
    }
    data.set(row, at * columns);
  }
  return { data, dtype: 'float64', shape: [read.length, columns] };
}

/** Ids of any kind, numbered by their first row, for a step without other labels. */
function groupNumbers(groups: unknown): number[] {
  if (!Array.isArray(groups)) throw new ArgumentError('rows.groups', `got ${shown(groups)}, expected an array of ids`);
  if (groups.every((group) => typeof group === 'number')) return groups;
  const ids = new Map<unknown, number>();
  return groups.map((group: unknown) => {
    if (!ids.has(group)) ids.set(group, ids.size);
    return ids.get(group) as number;
  });
}

/** Rewards may say that they are float32, which shows the filter how they were rounded. */
function readOutcomes(given: unknown): StepOutcomes {
  const outcomes = optionsObject(given ?? {}, 'outcomes') as StepOutcomes;
  const { rewards } = outcomes as { rewards?: unknown };
  if (rewards === undefined || Array.isArray(rewards)) return outcomes;
  const { dtype, values, ...others } = optionsObject(rewards, 'outcomes.rewards');
  checkFields(others, 'outcomes.rewards', []);
  is.oneOf(['float32', 'float64'])(dtype, 'outcomes.rewards.dtype');
  const read = numbers(values, 'outcomes.rewards.values');
  return { ...outcomes, rewards: dtype === 'float32' ? Float32Array.from(read) : read };
}
