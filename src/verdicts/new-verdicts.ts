// The verdicts of a run's steps -> those that a person has to be told: once for each step at which one was said (it
// began, became graver, or true of other environments).
import type { Verdict } from './verdict.js';

export class NewVerdicts {
  /** By run, then by kind: the step of what was told last. */
  readonly #told = new Map<string, Map<string, number>>();

  /** @param run one that no other run has */
  take(run: string, verdicts: readonly Verdict[] = []): Verdict[] {
    const known = this.#told.get(run);
    const told = known ?? new Map<string, number>();
    this.#told.set(run, told);
    return verdicts.filter(({ kind, said, step }) => {
      const before = told.get(kind);
      told.set(kind, said);
      // After a start in the middle of a run, what was said before it has been told.
      return known === undefined ? said === step : said !== before;
    });
  }
}
