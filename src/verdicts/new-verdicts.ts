// Picks the verdicts that are new to a reader: each is reported once per step at which it began, became more severe, or
// came to hold for other environments.
import type { Verdict } from './verdict.js';

export class NewVerdicts {
  /** Step of the last report, by run, then by kind. */
  readonly #told = new Map<string, Map<string, number>>();

  /** @param run one that no other run has */
  take(run: string, verdicts: readonly Verdict[] = []): Verdict[] {
    const known = this.#told.get(run);
    const told = known ?? new Map<string, number>();
    this.#told.set(run, told);
    return verdicts.filter(({ kind, said, step }) => {
      const before = told.get(kind);
      told.set(kind, said);
      // After a start in the middle of a run, earlier verdicts count as reported.
      return known === undefined ? said === step : said !== before;
    });
  }
}
