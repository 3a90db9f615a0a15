// Every figure of every computed step, for correlations over a run of any length in constant memory: up to KEPT_STEPS
// steps are kept; when they are full, every second one goes, and from then on only every second (fourth, eighth …) is
// taken.
import { count, fields, list, nullable, number, record, type Shaped } from '../../checks/saved.js';

const KEPT_STEPS = 256;

/** Figures beyond this many are not kept: a run does not grow new ones without end. */
const MOST_FIGURES = 512;

export const figureHistoryShape = fields({
  /** One in `stride` computed steps is taken. */
  stride: count,
  seen: count,
  steps: list(count, KEPT_STEPS),
  /** By figure, one value a kept step, null where it was not there. */
  figures: record(list(nullable(number), KEPT_STEPS)),
});
export type FigureHistoryJson = Shaped<typeof figureHistoryShape>;

export class FigureHistory {
  #stride: number;
  #seen: number;
  #steps: number[];
  readonly #figures: Map<string, (number | null)[]>;

  constructor(saved: FigureHistoryJson = { stride: 1, seen: 0, steps: [], figures: {} }) {
    this.#stride = saved.stride;
    this.#seen = saved.seen;
    this.#steps = saved.steps;
    this.#figures = new Map(Object.entries(saved.figures));
  }

  add(step: number, figures: Readonly<Record<string, number>>): void {
    const taken = this.#seen % this.#stride === 0;
    this.#seen++;
    if (!taken) return;
    if (this.#steps.length === KEPT_STEPS) {
      const everySecond = <T>(values: T[]): T[] => values.filter((_, at) => at % 2 === 0);
      this.#steps = everySecond(this.#steps);
      for (const [name, values] of this.#figures) this.#figures.set(name, everySecond(values));
      this.#stride *= 2;
    }
    for (const name of Object.keys(figures)) {
      if (this.#figures.has(name) || this.#figures.size >= MOST_FIGURES) continue;
      this.#figures.set(name, new Array<null>(this.#steps.length).fill(null));
    }
    for (const [name, values] of this.#figures) {
      const value = figures[name];
      values.push(value !== undefined && Number.isFinite(value) ? value : null);
    }
    this.#steps.push(step);
  }

  get names(): string[] {
    return [...this.#figures.keys()];
  }

  /** One value a kept step. */
  values(name: string): readonly (number | null)[] {
    return this.#figures.get(name) ?? [];
  }

  toJSON(): FigureHistoryJson {
    const figures = [...this.#figures].map(([name, values]) => [name, [...values]]);
    return {
      stride: this.#stride,
      seen: this.#seen,
      steps: [...this.#steps],
      figures: Object.fromEntries(figures) as FigureHistoryJson['figures'],
    };
  }
}
