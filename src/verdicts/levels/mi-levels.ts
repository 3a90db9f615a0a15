// I(X;Z) of batches with different numbers of prompts, like with like: a level for each number of prompts, of which a
// step is judged at the largest that the run's start has too.

import { count, fields, kept, record } from '../../checks/saved.js';
import { type Comparison, WIDTH_95 } from '../statistics/threshold-state.js';
import { FollowedLevel, followedLevelShape } from './followed-level.js';
import { type RunLevel, START_STEPS, START_WINDOW } from './run-level.js';
import type { MiAt } from './step-levels.js';

export const miLevelsShape = fields({ steps: count, byPrompts: record(followedLevelShape) });

/** A step's I(X;Z) at the number of prompts at which it can be compared. */
export interface ComparedMi {
  readonly at: MiAt;
  readonly followed: FollowedLevel;
  /** Comparison with half of the start; null without a start, or with one that cannot be distinguished from zero. */
  readonly comparison: Comparison | null;
}

export class MiLevels extends kept(miLevelsShape) {
  readonly #levels = new Map(
    Object.entries(this.state.byPrompts).map(([prompts, level]) => [Number(prompts), new FollowedLevel(level)]),
  );

  /** Steps with evidence. */
  get steps(): number {
    return this.state.steps;
  }

  get all(): Iterable<FollowedLevel> {
    return this.#levels.values();
  }

  /** The level with the most values; of several, that of the most prompts. */
  get fullest(): RunLevel | undefined {
    const byPrompts = [...this.#levels].sort(([a], [b]) => b - a).map(([, { level }]) => level);
    return byPrompts.sort((a, b) => b.seen - a.seen)[0];
  }

  /**
   * Adds a step. @param prompts different ones of the step @param hadStart whether the run's start was distinct from
   * zero before @param tests that share a level
   */
  add(step: number, figures: readonly MiAt[], prompts: number, hadStart: boolean, tests = 1): ComparedMi {
    this.state.steps++;
    let compared: ComparedMi | undefined;
    for (const at of figures) {
      const followed = this.#levelOf(at.prompts);
      if (followed === undefined) continue;
      const { level } = followed;
      level.add(step, at.value, at.error, Math.max(1, prompts));
      const reach = WIDTH_95 * level.excessSigma(Math.max(1, prompts));
      const halves = { above: Math.hypot(at.high - at.value, reach), below: Math.hypot(at.value - at.low, reach) };
      const comparison =
        level.comparable && (hadStart || followed.hasStart) ? followed.compare(at.value, halves, tests) : null;
      if (compared === undefined || level.comparable || !compared.followed.level.comparable) {
        compared = { at, followed, comparison };
      }
    }
    this.#dropLate();
    // If no number of prompts is one of the start's, nothing is compared.
    const [at] = figures as readonly [MiAt];
    return compared ?? { at, followed: new FollowedLevel(), comparison: null };
  }

  /** Undefined for a number of prompts that the run's first steps did not have: it has no start. */
  #levelOf(prompts: number): FollowedLevel | undefined {
    const known = this.#levels.get(prompts);
    if (known !== undefined || this.state.steps > START_WINDOW) return known;
    const level = new FollowedLevel();
    this.#levels.set(prompts, level);
    this.state.byPrompts[prompts] = level.state;
    return level;
  }

  /** When the first steps are over, what too few of them had is forgotten: its start would be that of later ones. */
  #dropLate(): void {
    if (this.state.steps !== START_WINDOW) return;
    for (const [prompts, { level }] of this.#levels) {
      if (level.seen >= START_STEPS) continue;
      this.#levels.delete(prompts);
      delete this.state.byPrompts[prompts];
    }
  }
}
