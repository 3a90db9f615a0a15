// Figures of one instrument of a run: of batches of one environment, which are judged as they are, and of batches that
// mix several.
import { fields, kept, nullable, text } from '../../checks/saved.js';
import type { EnvironmentFigures } from '../../metrics/environments/environment-figures.js';
import type { RunLevel } from '../levels/run-level.js';
import type { StepLevels } from '../levels/step-levels.js';
import { type DependenceStep, PromptDependence, promptDependenceShape } from '../prompt-dependence.js';
import type { Regimes } from '../regimes.js';
import { MixedDependence, mixedDependenceShape } from './mixed-dependence.js';

/** Fewer prompts of an environment show no dependence. */
const LEAST_PROMPTS = 2;

export const runDependenceShape = fields({
  /** Of batches of one environment. */
  whole: promptDependenceShape,
  /** The environment that the run's batches have been of; null: none was named, or there were several. */
  only: nullable(text),
  mixed: nullable(mixedDependenceShape),
});

export class RunDependence extends kept(runDependenceShape) {
  readonly #whole = new PromptDependence(this.state.whole);
  #mixed = this.state.mixed && new MixedDependence(this.state.mixed);

  /** Whether any step has been read. */
  get hasSteps(): boolean {
    return this.#whole.hasSteps || this.#mixed !== null;
  }

  get isStarting(): boolean {
    return this.#mixed?.isStarting ?? this.#whole.isStarting;
  }

  /** Those about the state of the run. */
  get regimes(): Regimes {
    return this.#mixed?.regimes ?? this.#whole.regimes;
  }

  /**
   * @param figures of the step, with those of its environments where it names any
   * @param levelsOf what the rules rest on, or why there is none; `least` prompts must differ
   * @returns in words why nothing can be read
   */
  read<Figures extends { readonly environments?: readonly EnvironmentFigures<Figures>[] }>(
    step: number,
    figures: Figures | undefined,
    levelsOf: (figures: Figures | undefined, least?: number) => StepLevels | string,
    success: RunLevel,
  ): DependenceStep | string {
    const environments = figures?.environments;
    if (environments === undefined) {
      const whole = levelsOf(figures);
      if (typeof whole === 'string') return whole;
      if (this.#mixed !== null) return 'the step names no environments, as the steps before it did';
      return this.#whole.read(step, whole, success);
    }
    const isMixed = environments.filter(({ prompts }) => prompts >= LEAST_PROMPTS).length > 1;
    if (!isMixed && this.#mixed === null) {
      const whole = levelsOf(figures);
      if (typeof whole === 'string') return whole;
      const [one] = environments;
      const isFirst = !this.#whole.hasSteps;
      const isSame = environments.length === 1 && (isFirst || this.state.only === one?.name);
      this.state.only = isSame ? (one?.name ?? null) : null;
      return this.#whole.read(step, whole, success);
    }
    if (this.#mixed === null) {
      this.#mixed = new MixedDependence();
      this.state.mixed = this.#mixed.state;
      if (this.state.only !== null) this.#mixed.join(this.state.only, this.#whole);
    }
    const named = environments.map(({ name, figures: own }) => {
      // Of a batch of one environment its figures are those of the whole.
      const of = environments.length === 1 ? figures : own;
      const none = `environment ${name} has fewer than ${LEAST_PROMPTS} prompts`;
      return { name, levels: of === undefined ? none : levelsOf(of, LEAST_PROMPTS) };
    });
    const found = this.#mixed.read(step, named, success);
    return found ?? 'no environment of the step has figures that can be used';
  }
}
