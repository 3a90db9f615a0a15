// The measured steps of one run, in step order -> what depends on that order: moving averages, regimes and verdicts.
import { ArgumentError } from '../errors.js';
import { withAverages } from '../metrics/moving-averages.js';
import { RunningState } from '../metrics/running-state.js';
import type { Profile } from '../metrics/step-metrics.js';
import { Judge, type Judgement, type RunSummary } from '../monitor/verdicts/index.js';
import type { StepMeasurement } from './step-measurement.js';
import type { StepFindings } from './step-report.js';

export class RunReplay {
  readonly #profile: Profile;
  readonly #averages = new RunningState();
  readonly #judge: Judge;

  /** @param seed the one that the steps were measured with */
  constructor(profile: Profile, seed: number) {
    this.#profile = profile;
    this.#judge = new Judge({ seed });
  }

  /** @param step training step, not before the last one taken */
  take(step: number, { metrics: measured, reading, filter, notes }: StepMeasurement): StepFindings {
    const metrics = measured.map((sample) => withAverages(sample, this.#averages, step));
    // `ragen` gives what the reference logs and nothing else.
    if (this.#profile === 'ragen') return { metrics };
    const remarks = [...notes];
    let judgement: Judgement | undefined;
    try {
      judgement = reading && this.#judge.take(reading, metrics[0]);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      remarks.push(`no verdicts: ${error.message}`);
    }
    return { metrics, ...(judgement && { judgement }), ...(filter && { filter }), notes: remarks };
  }

  /** Verdicts of the run so far, and correlations with success. */
  summary(): RunSummary {
    return this.#judge.summary();
  }
}
