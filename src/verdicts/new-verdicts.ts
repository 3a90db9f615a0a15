// The verdicts of a run's steps -> those that a person has to be told: once when they begin, and again when they become
// graver, or true of more environments.
import type { Verdict } from './verdict.js';
import { GRAVITY, hasMore } from './verdict-log.js';

export class NewVerdicts {
  /** By run and kind: the stretch, its gravest severity so far, and what it was said of. */
  readonly #said = new Map<string, { raised: number; gravity: number; of: Verdict }>();

  /** @param run one that no other run has */
  take(run: string, verdicts: readonly Verdict[] = []): Verdict[] {
    return verdicts.filter((verdict) => {
      const { kind, raised, severity, step } = verdict;
      const key = `${run}\n${kind}`;
      const before = this.#said.get(key);
      const gravity = GRAVITY.indexOf(severity);
      const isSame = before?.raised === raised;
      const isMore = isSame && hasMore(before.of, verdict);
      const of = isSame && !isMore ? before.of : verdict;
      this.#said.set(key, { raised, gravity: Math.max(gravity, isSame ? before.gravity : 0), of });
      // After a start in the middle of a run, what was raised before has been said.
      if (before === undefined) return raised === step;
      return !isSame || isMore || gravity > before.gravity;
    });
  }
}
