// Runs a computation that asks for counts of shuffled actions on its way: counts at once, or off the JS thread if there
// is an engine.

import { loadAddon } from '../../engine/addon.js';
import type { Engine } from '../../engine/engine.js';
import type { ShuffleArguments, ShuffleCount, ShuffleCounts } from '../../engine/native.js';

/** A computation that yields the counts that it needs. */
export type Counting<Result> = Generator<ShuffleCount, Result, unknown>;

/** Delegate to it with `yield*`: gives the count. */
export function* shuffleCount<Kind extends keyof ShuffleArguments>(
  kind: Kind,
  ...given: ShuffleArguments[Kind]
): Counting<ShuffleCounts[Kind]> {
  return (yield { kind, given } as ShuffleCount) as ShuffleCounts[Kind];
}

/** Counts on this thread: some ten nanoseconds a row and shuffle. */
export function countNow<Result>(work: Counting<Result>): Result {
  let turn = work.next();
  while (!turn.done) {
    const { kind, given } = turn.value;
    const count = loadAddon()[kind] as (settle: undefined, ...rest: unknown[]) => unknown;
    turn = work.next(count(undefined, ...given));
  }
  return turn.value;
}

/**
 * Counts on an engine's threads.
 * @param engine or what opens it, asked when the first count is wanted
 * @throws `signal.reason` (as a rejection) when aborted
 */
export async function countOn<Result>(
  engine: Engine | (() => Promise<Engine>),
  work: Counting<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  let turn = work.next();
  while (!turn.done) {
    const opened = typeof engine === 'function' ? await engine() : engine;
    turn = work.next(await opened.countShuffles(turn.value, { signal }));
  }
  return turn.value;
}
