// What a run's steps must not do at the same time: use the state that one step hands to the next.
import { RunningState } from '../metrics/running-state.js';
import type { Profile } from '../metrics/step-metrics.js';
import { Judge } from '../monitor/verdicts/index.js';

/** Lets the steps of one run through one at a time, in the order in which they asked, with the run's moving averages and its judge. */
export class RunHistory {
  #state = new RunningState();
  #last: Promise<unknown> = Promise.resolve();

  /** Told of a step last, when nothing can go wrong with it any more. */
  readonly judge: Judge;

  constructor(
    readonly profile: Profile,
    seed = 0,
  ) {
    this.judge = new Judge({ seed });
  }

  /**
   * Calls `use` when `ready` has come and every step that asked before is through.
   * A step that fails leaves the averages as it found them.
   */
  inTurn<Ready, Result>(
    ready: Promise<Ready>,
    use: (value: Ready, state: RunningState) => Promise<Result>,
  ): Promise<Result> {
    const before = this.#last;
    const turn = (async () => {
      const value = await ready;
      await before;
      // The reference carries NaN along, which a saved state refuses to hold.
      const state = this.profile === 'strict' ? RunningState.from(this.#state.toJSON()) : this.#state;
      const result = await use(value, state);
      this.#state = state;
      return result;
    })();
    this.#last = Promise.allSettled([before, turn]);
    return turn;
  }
}
