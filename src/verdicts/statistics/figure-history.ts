// Keeps the figures of computed steps for correlations in constant memory: when KEPT_STEPS are full, every second one
// is dropped, and from then on only every second (fourth, eighth …) step is kept.
import { count, fields, kept, list, nullable, number, record, type Shaped, startingWith } from '../../checks/saved.js';

const KEPT_STEPS = 256;

/** Figures beyond this many are not kept: a run does not grow new ones without end. */
const MOST_FIGURES = 512;

export const figureHistoryShape = fields({
  /** One in `stride` computed steps is taken. */
  stride: startingWith(() => 1, count),
  seen: count,
  steps: list(count, KEPT_STEPS),
  /** By figure, one value a kept step, null if it was not there. */
  figures: record(list(nullable(number), KEPT_STEPS)),
});

export class FigureHistory extends kept(figureHistoryShape) {
  /** Names are anyone's. */
  readonly #figures: Map<string, (number | null)[]>;

  constructor(state?: Shaped<typeof figureHistoryShape>) {
    super(state);
    this.#figures = new Map(Object.entries(this.state.figures));
    // From here on only the map has them.
    this.state.figures = {};
  }

  add(step: number, figures: Readonly<Record<string, number>>): void {
    const taken = this.state.seen % this.state.stride === 0;
    this.state.seen++;
    if (!taken) return;
    if (this.state.steps.length === KEPT_STEPS) {
      const everySecond = <T>(values: T[]): T[] => values.filter((_, at) => at % 2 === 0);
      this.state.steps = everySecond(this.state.steps);
      for (const [name, values] of this.#figures) this.#figures.set(name, everySecond(values));
      this.state.stride *= 2;
    }
    for (const name of Object.keys(figures)) {
      if (this.#figures.has(name) || this.#figures.size >= MOST_FIGURES) continue;
      this.#figures.set(name, new Array<null>(this.state.steps.length).fill(null));
    }
    for (const [name, values] of this.#figures) {
      const value = figures[name];
      values.push(value !== undefined && Number.isFinite(value) ? value : null);
    }
    this.state.steps.push(step);
  }

  get names(): string[] {
    return [...this.#figures.keys()];
  }

  /** One value a kept step. */
  values(name: string): readonly (number | null)[] {
    return this.#figures.get(name) ?? [];
  }

  override toJSON(): Shaped<typeof figureHistoryShape> {
    const figures = [...this.#figures].map(([name, values]) => [name, [...values]]);
    return {
      ...this.state,
      steps: [...this.state.steps],
      figures: Object.fromEntries(figures) as Shaped<typeof figureHistoryShape>['figures'],
    };
  }
}
