// The measured steps of one run, in step order -> what depends on that order: moving averages, regimes and verdicts.
import { withAverages } from '../../metrics/reporting/moving-averages.js';
import { RunningState } from '../../metrics/reporting/running-state.js';
import type { Profile } from '../../metrics/step-metrics.js';
import { promptFindings } from '../../monitor/prompts/prompt-findings.js';
import { Judge, type RunSummary } from '../../verdicts/index.js';
import type { StepMeasurement } from '../measuring/step-measurement.js';
import type { StepFindings } from '../step-report.js';

export class RunReplay {
  readonly #profile: Profile;
  readonly #averages = new RunningState();
  readonly #judge: Judge;

  /** @param seed the one that the steps were measured with */
  constructor(profile: Profile, seed: number) {
    this.#profile = profile;
    this.#judge = new Judge({ seed });
  }

  /**
   * @param step training step
   * @param disorder why it is not later than one taken before: then it has no verdicts
   */
  take(step: number, measurement: StepMeasurement, disorder?: string): StepFindings {
    const { metrics: measured, texts, excerpts, reading, filter, notes } = measurement;
    const metrics = measured.map((sample) => withAverages(sample, this.#averages, step));
    // `ragen` gives what the reference logs and nothing else.
    const written = texts && { texts };
    if (this.#profile === 'ragen') return { metrics, ...written };
    const beside = { ...written, ...(excerpts && { excerpts }), ...(filter && { filter }) };
    if (disorder !== undefined) {
      return { metrics, ...beside, ...promptFindings(measurement, undefined), notes: [...notes, disorder] };
    }
    const judgement = reading && this.#judge.take(reading, metrics[0], texts);
    const ofPrompts = promptFindings(measurement, judgement);
    return { metrics, ...(judgement && { judgement }), ...beside, ...ofPrompts, notes };
  }

  /** Verdicts of the run so far, and correlations with success. */
  summary(): RunSummary {
    return this.#judge.summary();
  }
}
