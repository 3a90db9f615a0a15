// The verdicts of a run's steps -> those that a person has to be told: once when they begin, and again when they become
// graver.
import type { Severity, Verdict } from './verdict.js';

/** From the least to the gravest. */
export const GRAVITY: readonly Severity[] = ['info', 'warning', 'critical'];

export class NewVerdicts {
  /** By run and kind: the stretch, and its gravest severity so far. */
  readonly #said = new Map<string, { raised: number; gravity: number }>();

  /** @param run one that no other run has */
  take(run: string, verdicts: readonly Verdict[] = []): Verdict[] {
    return verdicts.filter(({ kind, raised, severity, step }) => {
      const key = `${run}\n${kind}`;
      const before = this.#said.get(key);
      const gravity = GRAVITY.indexOf(severity);
      const isSame = before?.raised === raised;
      this.#said.set(key, { raised, gravity: Math.max(gravity, isSame ? before.gravity : 0) });
      // After a start in the middle of a run, what was raised before has been said.
      if (before === undefined) return raised === step;
      return !isSame || gravity > before.gravity;
    });
  }
}
