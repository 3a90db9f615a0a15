// Monitors a trainer's run: takes steps, and gives metrics, kept groups, verdicts and early stops.

import type { Source } from '../checks/abortable-source.js';
import { ArgumentError, DisposedError } from '../checks/errors.js';
import { Turns } from '../checks/turns.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import { openEngine } from '../engine/open-engine.js';
import type { FilterResult } from '../filter/filter-result.js';
import { Run, type RunProgress, startRun } from '../step/run.js';
import type { StepReport } from '../step/step-report.js';
import { finishStep, type OpenStep, PLACE } from './finish-step.js';
import { type MonitorOptions, type RunOptions, resolveOptions } from './monitor-options.js';
import { type MonitorState, restoreRun, saveRun } from './monitor-state.js';
import { MonitorStep, type ScoreOptions, type StepHost } from './monitor-step.js';
import { openLabels, type StepLabels } from './outcomes/step-labels.js';
import type { CheckedOutcomes } from './outcomes/step-outcomes.js';
import { type MonitorInput, reportStream, reportsOf } from './report-stream.js';
import { SinkQueue } from './sinks/sink-queue.js';

/**
 * Watches one run. Steps may be open side by side, but are finished by rising number. Everything that later steps
 * depend on is in `save()`; a restored monitor continues to the bit.
 * @throws {ArgumentError} from the constructor for an option that is unknown or out of range
 * @example
 * import { Monitor } from 'collapsar';
 *
 * await using monitor = new Monitor({ everySteps: 10 });
 * const step = monitor.step(n, { groups, lengths }); // [R] prompt id and reasoning tokens of each row
 * for (const { prompt, rows } of step.pairs().byPrompt) {
 *   await step.score(prompt, await policy.logprobs(prompt, rows)); // [R, T], nats; none at steps between
 * }
 * const { metrics, judgement, filter } = await step.finish({ rewards });
 */
export class Monitor {
  /** The run's options, with defaults filled in. */
  readonly options: RunOptions;
  readonly #threads: number | undefined;
  readonly #host: StepHost;
  readonly #run: Run;
  #engine: Promise<Engine> | undefined;
  /** Whether the engine is this monitor's to dispose. */
  readonly #ownsEngine: boolean;
  #disposed = false;
  readonly #turns = new Turns();
  readonly #sinks: SinkQueue[];

  constructor(options?: MonitorOptions);
  /** @internal */
  constructor(options: MonitorOptions, restored: { options: RunOptions; run: RunProgress });
  constructor(options: MonitorOptions = {}, restored?: { options: RunOptions; run: RunProgress }) {
    this.options = Object.freeze(restored?.options ?? resolveOptions(options));
    const { judge, earlyStop } = this.options;
    this.#run = new Run(options.run ?? 'run', PLACE.directory, restored?.run ?? startRun(judge, earlyStop));
    this.#threads = options.threads;
    this.#sinks = (options.sinks ?? []).map((sink) => new SinkQueue(sink, warnOfSink));
    this.#ownsEngine = options.engine === undefined;
    this.#engine = options.engine && Promise.resolve(options.engine);
    this.#host = {
      options: this.options,
      perPrompt: options.sinks?.some(({ readsPrompts }) => readsPrompts) === true,
      engine: () => this.#openEngine(),
      finish: (open, outcomes, signal) => this.#finish(open, outcomes, signal),
    };
  }

  /**
   * Continues a run from what `save()` gave, or from the same as parsed JSON.
   * @param options only where to compute; any other option that is given must be the run's own
   * @throws {StateError} for a state that is foreign, damaged, of another version, or of a run with other options
   */
  static restore(state: unknown, options: MonitorOptions = {}): Monitor {
    return new Monitor(options, restoreRun(state, options));
  }

  /** Plain JSON of the run up to its last finished step, by itself: later steps do not change it. */
  save(): MonitorState {
    return saveRun(this.options, this.#run.progress);
  }

  /** The last finished step; null before the first. */
  get lastStep(): number | null {
    return this.#run.progress.step;
  }

  /**
   * Opens a step.
   * @param step training step: later than every finished one
   * @throws {ArgumentError} for a step number that goes back, or labels that do not fit
   */
  step(step: number, labels: StepLabels): MonitorStep {
    if (!Number.isSafeInteger(step) || step < 0) {
      throw new ArgumentError('step', `got ${shown(step)}, expected a training step: an integer from 0 on`);
    }
    this.#expectLater(step);
    const due = labels?.due ?? this.#isDue(step);
    const open = openLabels(labels, due);
    return new MonitorStep(this.#host, step, due, open);
  }

  /**
   * Steps in, reports out, one at a time: the next step is asked of the source when its report is asked for. However it
   * ends, the source is closed (a stream cancelled), and with it the blocks of the step that was being scored.
   * @throws what a step throws, or `signal.reason` when aborted; the monitor is then as after the last report
   */
  reports(
    source: Source<MonitorInput>,
    options: ScoreOptions = {},
  ): AsyncGenerator<StepReport<FilterResult>, void, undefined> {
    return reportsOf(this, source, options);
  }

  /**
   * The same as a Web Stream: a step is computed when its report is read, and one more waits to be. An abort of the
   * writable side, a cancel of the readable side and the signal stop the step that is being computed.
   */
  transform(options: ScoreOptions = {}): TransformStream<MonitorInput, StepReport<FilterResult>> {
    return reportStream(this, options);
  }

  /**
   * Waits until the sinks have what was reported, and closes them. Disposes of the engine, if the monitor has opened
   * it: what needs one rejects with a DisposedError from then on. The state can still be saved.
   */
  async dispose(): Promise<void> {
    await Promise.all(this.#sinks.splice(0).map((sink) => sink.close()));
    if (!this.#ownsEngine) return;
    this.#disposed = true;
    const engine = this.#engine;
    this.#engine = undefined;
    await (await engine)?.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #isDue(step: number): boolean {
    const { everySteps, profile } = this.options;
    if (everySteps === 'never') return false;
    // A fall is measured from the run's start: five steps in succession show it best.
    const isStarting = profile === 'strict' && this.#run.progress.judge?.isStarting === true;
    return isStarting || step === 1 || step % everySteps === 0;
  }

  #expectLater(step: number): void {
    const { step: last } = this.#run.progress;
    if (last !== null && step <= last) {
      if (step === last) {
        throw new ArgumentError('step', `step ${step} was finished already: open the next one, with a higher number`);
      }
      throw new ArgumentError(
        'step',
        `step ${step} comes after step ${last} was finished: steps must rise; to go back, restore the state saved before it`,
      );
    }
  }

  async #openEngine(): Promise<Engine> {
    // Another one would never be disposed.
    if (this.#disposed)
      throw new DisposedError('monitor', 'it was disposed; go on with Monitor.restore(monitor.save())');
    if (this.#engine === undefined) {
      // Nobody else can put tensors on a GPU of it.
      const opening = openEngine({ device: 'cpu', threads: this.#threads });
      this.#engine = opening;
      // One that could not be opened is tried again.
      opening.catch(() => {
        if (this.#engine === opening) this.#engine = undefined;
      });
    }
    return this.#engine;
  }

  /** Steps are finished one at a time, as each starts from what the one before left. */
  #finish(
    open: OpenStep,
    outcomes: CheckedOutcomes,
    signal: AbortSignal | undefined,
  ): Promise<StepReport<FilterResult>> {
    return this.#turns.take(async () => {
      this.#expectLater(open.step);
      const { engine, perPrompt } = this.#host;
      const report = await finishStep(this.#run, open, outcomes, this.options, perPrompt, engine, signal);
      const { summary } = this.#run;
      for (const sink of this.#sinks) sink.offer({ ...report, ...(summary && { summary }) });
      return report;
    }, signal);
  }
}

function warnOfSink(problem: string): void {
  process.emitWarning(`a sink of the monitor failed, and what it does not take is left out: ${problem}`, 'SinkWarning');
}
