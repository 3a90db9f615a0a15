// Turns measured steps into reports, in step order within each run.
import type { ListedStep } from '../logs/steps/read-steps.js';
import { Run, startRun } from '../step/run.js';
import type { StepMeasurement } from '../step/step-measurement.js';
import type { KeyChoice } from '../step/step-record.js';
import type { StepReport } from '../step/step-report.js';
import type { ResolvedEarlyStop } from '../verdicts/early-stop/early-stops.js';
import type { MeasureOptions } from './measuring/measure-options.js';

/** Which run a step is of. */
type StepIdentity = Pick<ListedStep, 'file' | 'step' | 'run' | 'runDirectory' | 'bytes'>;

/** Steps without a kept group are counted; nobody can be stopped any more. */
const NO_STOPS: ResolvedEarlyStop = {
  rewardVariance: false,
  success: false,
  emptyFilter: { steps: Number.POSITIVE_INFINITY },
};

export class RunSequence {
  readonly #options: MeasureOptions;
  readonly #interleaved: boolean;
  #latest: { readonly key: string; readonly run: Run } | undefined;
  /** By directory and name; only if runs take turns. */
  readonly #others = new Map<string, Run>();

  /** @param interleaved whether a run may continue after steps of another one; else each ends where the next begins */
  constructor(options: MeasureOptions, { interleaved = false }: { readonly interleaved?: boolean } = {}) {
    this.#options = options;
    this.#interleaved = interleaved;
  }

  report(step: StepIdentity, measurement: StepMeasurement, choice: KeyChoice): StepReport {
    const run = this.#runOf(step, choice);
    const report = run.take(step, measurement);
    const { summary } = run;
    return report.judgement && summary ? { ...report, summary } : report;
  }

  #runOf({ runDirectory, run: name }: StepIdentity, choice: KeyChoice): Run {
    const key = JSON.stringify([runDirectory, name]);
    if (this.#latest?.key === key) return this.#latest.run;
    const { profile, seed } = this.#options;
    const judge = profile === 'ragen' ? (false as const) : { seed };
    const run = this.#others.get(key) ?? new Run(name, runDirectory, startRun(judge, NO_STOPS), choice);
    if (this.#interleaved) this.#others.set(key, run);
    this.#latest = { key, run };
    return run;
  }
}
