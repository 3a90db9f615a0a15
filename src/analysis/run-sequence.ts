// Measured steps in, in step order within each run, reports out.
import type { ListedStep } from '../logs/read-steps.js';
import type { MetricChoice } from './metric-choice.js';
import { RunReplay } from './run-replay.js';
import type { MeasureOptions, StepMeasurement } from './step-measurement.js';
import { type StepReport, stepRecord } from './step-report.js';

/** Which run a step is of. */
type StepIdentity = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory' | 'bytes'>;

interface RunUnderWay {
  readonly directory: string;
  readonly run: string;
  readonly replay: RunReplay;
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
    const { replay } = this.#run;
    const findings = replay.take(step.step, measurement);
    const record = stepRecord(step, findings, choice);
    const summary = findings.judgement && { summary: () => replay.summary() };
    return { file, step: step.step, run, directory, bytes, ...findings, ...summary, record };
  }

  #runOf(directory: string, run: string): RunUnderWay {
    const key = JSON.stringify([directory, run]);
    const known = this.#others.get(key);
    if (known !== undefined) return known;
    const begun = { directory, run, replay: new RunReplay(this.#options.profile, this.#options.seed) };
    if (this.#interleaved) this.#others.set(key, begun);
    return begun;
  }
}
