// Folders that a trainer writes to, in; a report a step out, when the step is complete, for as long as the trainer
// runs.

import { FileError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import { counted } from '../../checks/words.js';
import type { Engine } from '../../engine/engine.js';
import { openEngine } from '../../engine/open-engine.js';
import { logReading } from '../../logs/rollouts/log-options.js';
import type { SeenLogs } from '../../logs/rollouts/rollout-logs.js';
import type { StepReport } from '../../step/step-report.js';
import { ANALYSIS_OPTIONS, type AnalyzeOptions, checkAnalysis } from '../analyze.js';
import { FirstSteps } from '../measuring/first-steps.js';
import { hasTexts, isForced, type MeasureOptions, measureOptions } from '../measuring/measure-options.js';
import { badRow } from '../measuring/measure-step-data.js';
import { MeasuredSteps } from '../measuring/measured-steps.js';
import { logMemory, memoryPlan } from '../measuring/memory-plan.js';
import { MetricChoice } from '../measuring/metric-choice.js';
import { type StepFile, type StepFilesOptions, stepFiles } from '../measuring/step-source.js';
import { RunSequence } from '../run-sequence.js';
import { ToldSteps } from './told-steps.js';
import { Wake } from './wake.js';

/** Options of `watch`. */
export interface WatchOptions
  extends Omit<
    AnalyzeOptions,
    'journal' | 'journals' | 'onProgress' | 'onListing' | 'onSkipped' | 'onNote' | 'onFailure'
  > {
  /** Directory of the record of reported steps: a later watch with the same directory continues from it. */
  readonly state: string;
  /**
   * A step is taken when nothing of it has changed for this number of seconds and a later step of its run has begun, or
   * for six times as long. Default 10.
   */
  readonly settle?: number | undefined;
  /** Seconds between looks, if the system does not report changes sooner. Default 5. */
  readonly interval?: number | undefined;
  /** Only look at intervals. Default: also when the system reports a change. */
  readonly poll?: boolean | undefined;
  /** Take all that is there, complete or not, and end. */
  readonly once?: boolean | undefined;
  /** Called once with each file, path, line or step that cannot be used; the watch continues with the others. */
  readonly onFailure?: ((failure: FileError) => void) | undefined;
  /** Called with remarks for the user. */
  readonly onNote?: ((note: string) => void) | undefined;
}

const SECONDS = is.number('seconds', (seconds) => seconds >= 0 && seconds < 1e6);

const OPTIONS: OptionTable<WatchOptions> = {
  ...ANALYSIS_OPTIONS,
  state: is.needed(is.text('a directory', /./)),
  settle: SECONDS,
  interval: SECONDS,
  poll: is.flag,
  once: is.flag,
};

const [DEFAULT_SETTLE, DEFAULT_INTERVAL] = [10, 5];

/** A run's last step has nothing after it that shows that it is complete. */
const LAST_TIMES = 6;

/**
 * Follows folders of step files and rollout logs that appear, grow and are rotated away. Reported steps are kept in
 * `state` when the next report is asked for: a later watch gives each step once, and verdicts continue from there.
 * @returns reports, those of a run by step; ends by itself only with `once`
 * @throws {ArgumentError} for a bad option; {FileError} when `state` cannot be written; `signal.reason` when aborted
 * @example
 * import { watch } from 'collapsar/logs';
 *
 * for await (const { run, step, judgement } of watch('runs/', { state: 'watched', signal })) {
 *   for (const { sentence } of judgement?.verdicts ?? []) console.log(run, step, sentence);
 * }
 */
export async function* watch(
  source: string | readonly string[],
  options: WatchOptions,
): AsyncGenerator<StepReport, void, undefined> {
  checkAnalysis(source, options, OPTIONS);
  const measuring = measureOptions(options);
  const told = await ToldSteps.open(options.state, measuring);
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  const paths = typeof source === 'string' ? [source] : source;
  const wake = new Wake(options.poll ? [] : paths, 1000 * (options.interval ?? DEFAULT_INTERVAL));
  let engine: Engine | undefined;
  try {
    engine = options.engine ?? (await openEngine({ device: 'cpu', threads: options.threads, signal }));
    const watching = new Watching(engine, measuring, options, told, signal);
    for (;;) {
      for await (const report of watching.look(paths)) yield report;
      if (options.once) return;
      await wake.next(signal);
    }
  } finally {
    ending.abort();
    wake.close();
    await told.close();
    if (options.engine === undefined) await engine?.dispose();
  }
}

/** A content that was seen, and since when it has been so. */
interface Seen {
  readonly identity: string;
  readonly since: number;
}

class Watching {
  readonly #runs: RunSequence;
  readonly #choice: MetricChoice;
  readonly #logs: SeenLogs = {
    files: new Map(),
    lines: new Map(),
    parts: new Map(),
    contents: new Map(),
  };
  readonly #files: NonNullable<StepFilesOptions['seen']> = new Map();
  readonly #first = new FirstSteps();
  /** By step: those that wait to be complete. */
  readonly #waiting = new Map<string, Seen>();
  /** By step: the content that was reported, or that failed. */
  readonly #done = new Map<string, string>();
  /** By message, when a problem was first met: a file that is being written has problems of its own. */
  readonly #problems = new Map<string, number>();
  readonly #said = new Set<string>();

  constructor(
    private readonly engine: Engine,
    private readonly measuring: MeasureOptions,
    private readonly options: WatchOptions,
    private readonly told: ToldSteps,
    private readonly signal: AbortSignal,
  ) {
    this.#runs = new RunSequence(measuring, { interleaved: true });
    this.#choice = new MetricChoice(options.metrics);
    if (told.startedAnew !== undefined) {
      options.onNote?.(`${options.state} was of another watch: ${told.startedAnew}; all steps are told anew`);
    }
    for (const { step, identity, measurement } of told.earlier) {
      this.#runs.report(step, measurement, this.#choice);
      this.#done.set(keyOf(step), identity);
    }
    if (told.earlier.length > 0) options.onNote?.(`${counted(told.earlier.length, 'steps')} were told before`);
  }

  /** Reports of steps that are complete. */
  async *look(paths: readonly string[]): AsyncGenerator<StepReport, void, undefined> {
    const { measuring, options, signal } = this;
    const reading = {
      ...logReading(measuring),
      threads: options.threads,
      maxMemory: logMemory(options),
      seen: this.#logs,
    };
    const measured = new MeasuredSteps(reading, signal, this.#first);
    try {
      const failures: FileError[] = [];
      const notes: string[] = [];
      const steps = await stepFiles(
        paths,
        {
          onError: (failure) => failures.push(failure),
          onSkipped: () => undefined,
          onNote: (note) => notes.push(note),
          include: options.include,
          exclude: options.exclude,
          seen: this.#files,
          signal,
        },
        hasTexts(measuring) ? measured.logs : undefined,
        isForced(measuring),
      );
      for (const note of notes) this.#sayOnce(note);
      this.#note(failures);
      for (const step of steps) measured.note(step);
      for (const step of this.#complete(steps)) {
        const report = await this.#report(step, measured);
        if (report !== undefined) yield* report;
      }
    } finally {
      await measured.close();
    }
  }

  async #report(step: StepFile, measured: MeasuredSteps): Promise<AsyncGenerator<StepReport> | undefined> {
    const { engine, measuring, options, signal } = this;
    const { blockBytes } = memoryPlan(options);
    const key = keyOf(step);
    const identity = ownIdentity(step);
    try {
      const context = { engine, measuring, perPrompt: options.perPrompt, blockBytes, signal };
      const measurement = await measured.measure(step, context, { onBytes: () => undefined });
      for (const bad of measurement.badRows ?? []) options.onFailure?.(badRow(bad));
      const report = this.#runs.report(step, measurement, this.#choice);
      const { told } = this;
      const done = this.#done;
      this.#waiting.delete(key);
      return (async function* () {
        yield report;
        // Noted when the next report is asked for: one that a kill left without its note is reported again.
        await told.add({ step, identity, measurement });
        done.set(key, identity);
      })();
    } catch (error) {
      if (!(error instanceof FileError) || error === signal.reason) throw error;
      options.onFailure?.(error);
      // Until it changes.
      this.#done.set(key, identity);
      this.#waiting.delete(key);
      return undefined;
    }
  }

  /** Steps that were not reported yet, and that will not change any more, as far as that can be known. */
  #complete(steps: readonly StepFile[]): StepFile[] {
    const { settle = DEFAULT_SETTLE, once } = this.options;
    const now = performance.now();
    const last = new Map(steps.map((step) => [runOf(step), step.step]));
    return steps.filter((step) => {
      const key = keyOf(step);
      const identity = ownIdentity(step);
      const done = this.#done.get(key);
      if (done !== undefined) {
        if (done !== identity) this.#sayOnce(changed(step));
        return false;
      }
      const seen = this.#waiting.get(key);
      const since = seen?.identity === identity ? seen.since : now;
      this.#waiting.set(key, { identity, since });
      const isLast = last.get(runOf(step)) === step.step;
      return once === true || now - since >= 1000 * settle * (isLast ? LAST_TIMES : 1);
    });
  }

  /** Says what stays wrong. */
  #note(failures: readonly FileError[]): void {
    const { settle = DEFAULT_SETTLE, once, onFailure } = this.options;
    const now = performance.now();
    const messages = new Set(failures.map(({ message }) => message));
    for (const message of this.#problems.keys()) if (!messages.has(message)) this.#problems.delete(message);
    for (const failure of failures) {
      const since = this.#problems.get(failure.message) ?? now;
      this.#problems.set(failure.message, since);
      if (this.#said.has(failure.message) || !(once || now - since >= 1000 * settle * LAST_TIMES)) continue;
      this.#said.add(failure.message);
      onFailure?.(failure);
    }
  }

  #sayOnce(note: string): void {
    if (this.#said.has(note)) return;
    this.#said.add(note);
    this.options.onNote?.(note);
  }
}

const changed = ({ run, step }: StepFile): string =>
  `step ${step} of run ${run} was written to after it was told of: what was said of it stands`;

/** Not what phrases are held against: that step may be gone by now. */
function ownIdentity({ identity, rollouts }: StepFile): string {
  return rollouts === undefined ? identity : rollouts.identity;
}

const runOf = ({ runDirectory, run }: Pick<StepFile, 'runDirectory' | 'run'>): string => `${runDirectory}\n${run}`;
const keyOf = (step: Pick<StepFile, 'runDirectory' | 'run' | 'step'>): string => `${runOf(step)}\n${step.step}`;
