// Measured steps by run and step order in, reports out; runs come one after the other.
import type { ListedStep } from '../logs/read-steps.js';
import type { MetricChoice } from './metric-choice.js';
import { RunReplay } from './run-replay.js';
import type { MeasureOptions, StepMeasurement } from './step-measurement.js';
import { type StepReport, stepRecord } from './step-report.js';

/** Which run a step is of. */
type StepIdentity = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory' | 'bytes'>;

export class RunSequence {
  readonly #options: MeasureOptions;
  #run: { directory: string; run: string; replay: RunReplay } | undefined;

  constructor(options: MeasureOptions) {
    this.#options = options;
  }

  report(step: StepIdentity, measurement: StepMeasurement, choice: MetricChoice): StepReport {
    const { file, run, runDirectory: directory, bytes } = step;
    if (this.#run?.directory !== directory || this.#run.run !== run) {
      this.#run = { directory, run, replay: new RunReplay(this.#options.profile, this.#options.seed) };
    }
    const { replay } = this.#run;
    const findings = replay.take(step.step, measurement);
    const record = stepRecord(step, findings, choice);
    const summary = findings.judgement && { summary: () => replay.summary() };
    return { file, step: step.step, run, directory, bytes, ...findings, ...summary, record };
  }
}
