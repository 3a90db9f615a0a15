// Measured steps in, in step order within each run, reports out.
import type { ListedStep } from '../logs/steps/read-steps.js';
import type { MetricChoice } from './measuring/metric-choice.js';
import type { MeasureOptions, StepMeasurement } from './measuring/step-measurement.js';
import { RunReplay } from './results/run-replay.js';
import { type StepReport, stepRecord } from './step-report.js';

/** Which run a step is of. */
type StepIdentity = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory' | 'bytes'>;

interface RunUnderWay {
  readonly directory: string;
  readonly run: string;
  readonly replay: RunReplay;
  /** The latest step. */
  last: StepIdentity | undefined;
}

export class RunSequence {
  readonly #options: MeasureOptions;
  readonly #interleaved: boolean;
  #run: RunUnderWay | undefined;
  /** By directory and name; only where runs take turns. */
  readonly #others = new Map<string, RunUnderWay>();

  /** @param interleaved whether a run may go on after steps of another one; else each ends where the next one begins */
  constructor(options: MeasureOptions, { interleaved = false }: { readonly interleaved?: boolean } = {}) {
    this.#options = options;
    this.#interleaved = interleaved;
  }

  report(step: StepIdentity, measurement: StepMeasurement, choice: MetricChoice): StepReport {
    const { file, run, runDirectory: directory, bytes } = step;
    if (this.#run?.directory !== directory || this.#run.run !== run) this.#run = this.#runOf(directory, run);
    const { replay, last } = this.#run;
    const disorder = last && disorderOf(step, last);
    if (disorder === undefined) this.#run.last = step;
    const findings = replay.take(step.step, measurement, disorder);
    const record = stepRecord(step, findings, choice);
    const summary = findings.judgement && { summary: () => replay.summary() };
    return { file, step: step.step, run, directory, bytes, ...findings, ...summary, record };
  }

  #runOf(directory: string, run: string): RunUnderWay {
    const key = JSON.stringify([directory, run]);
    const known = this.#others.get(key);
    if (known !== undefined) return known;
    const replay = new RunReplay(this.#options.profile, this.#options.seed);
    const begun: RunUnderWay = { directory, run, replay, last: undefined };
    if (this.#interleaved) this.#others.set(key, begun);
    return begun;
  }
}

/** What to tell the user of a step that is not later than the latest one before it. */
function disorderOf({ file, step, run }: StepIdentity, last: StepIdentity): string | undefined {
  if (step > last.step) return undefined;
  const effect = 'it has no verdicts, and the moving averages (*_ema_by_step) take it for the step after';
  if (step < last.step) {
    return (
      `out of order: step ${step} of run ${run} (${file}) comes after step ${last.step} (${last.file}): ${effect}; ` +
      'hand out the steps of a run in rising order'
    );
  }
  const where = file === last.file ? `twice from ${file}` : `from ${last.file} and from ${file}`;
  return `step ${step} of run ${run} comes ${where}: ${effect}; remove one of the two, or give it its own number`;
}
