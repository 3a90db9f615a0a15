// Samples the rows of a step for its metrics: the three samplers over (trajectory, turn) pairs of
// docs/reference/metrics.md.

import { checkArray } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import { PROFILE, type Profile } from '../step-metrics.js';
import { Random } from './random.js';

/**
 * - `first_turn`: the first turn of each trajectory, without replacement;
 * - `trajectory`: a trajectory with equal probability 1/M, then one of its turns 1/T_m, with replacement;
 * - `turn`: every turn with equal probability 1/ΣT, without replacement.
 */
export type SamplerKind = 'first_turn' | 'trajectory' | 'turn';

/** Which rows a sampler draws, and how many. */
export interface SamplerOptions {
  kind: SamplerKind;
  /**
   * How many rows to draw, exactly; `first_turn` and `turn` give all there are if n is larger. Default: all
   * (`trajectory`: as many as there are turns).
   * Of `trajectory` at most 2^24; metrics score n draws among n prompts, which takes 8·n² bytes.
   * Under `ragen` `trajectory` gives fewer, as the reference does.
   */
  n?: number | undefined;
  /** Default 0. */
  seed?: number | undefined;
}

/** Draws with replacement are held in memory, however few rows there are. */
const MOST_DRAWS = 2 ** 24;

/** A sampler's name means the sampler with its defaults. */
export function samplerOptions(sampler: SamplerKind | SamplerOptions): SamplerOptions {
  return typeof sampler === 'string' ? { kind: sampler } : sampler;
}

export const SAMPLER_OPTIONS: OptionTable<SamplerOptions> = {
  kind: is.needed(is.oneOf(['first_turn', 'trajectory', 'turn'])),
  n: is.integer(1),
  seed: is.integer(0),
};

/** A trajectory's turns: row of each turn, ordered by turn number. */
type Trajectory = number[];

/** Groups the usable rows by episode, in order of appearance, each trajectory by rising turn. */
function trajectoriesOf(
  episodes: ArrayLike<number | bigint>,
  turns: ArrayLike<number | bigint>,
  usable: (row: number) => boolean,
): Trajectory[] {
  const byEpisode = new Map<string, Trajectory>();
  for (let row = 0; row < episodes.length; row++) {
    if (!usable(row)) continue;
    const key = String(episodes[row]);
    const trajectory = byEpisode.get(key);
    if (trajectory) trajectory.push(row);
    else byEpisode.set(key, [row]);
  }
  const number = (row: number): number => Number(turns[row]);
  for (const trajectory of byEpisode.values()) trajectory.sort((a, b) => number(a) - number(b) || a - b);
  return [...byEpisode.values()];
}

/** n of the items without replacement (partial Fisher–Yates), in the order drawn; all, untouched, if n covers them. */
function drawWithout(items: readonly number[], n: number, random: Random): number[] {
  if (n >= items.length) return [...items];
  const pool = [...items];
  for (let i = 0; i < n; i++) {
    const j = i + random.below(pool.length - i);
    [pool[i], pool[j]] = [pool[j] as number, pool[i] as number];
  }
  return pool.slice(0, n);
}

/**
 * The row that opens each episode, whether or not it has reasoning.
 * @param episodes [R] trajectory of each row; ids may be any integers
 * @param turns [R] its turn number within it
 * @returns indices of rows, one an episode, ascending
 * @throws {ArgumentError} unless all are columns of integers of one length
 */
export function firstTurnRows(episodes: ArrayLike<number | bigint>, turns: ArrayLike<number | bigint>): number[] {
  checkColumns(episodes, turns);
  return trajectoriesOf(episodes, turns, () => true)
    .map((trajectory) => trajectory[0] as number)
    .sort((a, b) => a - b);
}

/**
 * @throws {ArgumentError} for columns of different lengths, or an entry that is not an integer: NaN has no place in an
 *   order turn
 */
function checkColumns(episodes: ArrayLike<number | bigint>, turns: ArrayLike<number | bigint>): void {
  for (const [name, values] of Object.entries({ episodes, turns })) {
    checkArray(values, name);
    for (let row = 0; row < values.length; row++) {
      const value: unknown = values[row];
      if (typeof value === 'bigint' || Number.isInteger(value)) continue;
      throw new ArgumentError(name, `row ${row} is ${shown(value)}, expected an integer`);
    }
  }
  if (episodes.length === turns.length) return;
  throw new ArgumentError('turns', `${turns.length} turn numbers for ${episodes.length} episode ids`);
}

/**
 * Draws rows. Only `usable` rows (with reasoning) are drawn, and a trajectory without any is never picked, so that n is
 * exact. `trajectory` may draw a row more than once. A row index is into the step's rows.
 * @param episodes [R] trajectory of each row
 * @param turns [R] its turn number within it
 * @param usable whether a row, by index, may be drawn. Default: all
 * @param profile under `ragen`, as in the reference, `trajectory` draws no more often than there are usable rows, picks
 *   trajectories without any too, and loses those draws
 * @returns indices of rows, in the order drawn; empty if no row is usable
 * @throws {ArgumentError} as firstTurnRows(), or for an option that is out of range
 */
export function sampleRows(
  episodes: ArrayLike<number | bigint>,
  turns: ArrayLike<number | bigint>,
  sampler: SamplerKind | SamplerOptions,
  usable: (row: number) => boolean = () => true,
  profile: Profile = 'strict',
): Int32Array {
  checkColumns(episodes, turns);
  const options = samplerOptions(sampler);
  if (typeof usable !== 'function') throw new ArgumentError('usable', `got ${shown(usable)}, expected a function`);
  checkOptions(options, SAMPLER_OPTIONS, 'sampler');
  PROFILE(profile, 'profile');
  const { kind, n, seed = 0 } = options;
  const random = new Random(seed);
  switch (kind) {
    case 'first_turn': {
      const first = firstTurnRows(episodes, turns).filter(usable);
      return Int32Array.from(drawWithout(first, n ?? first.length, random));
    }
    case 'turn': {
      const all = Array.from({ length: episodes.length }, (_, row) => row).filter(usable);
      return Int32Array.from(drawWithout(all, n ?? all.length, random));
    }
    case 'trajectory': {
      if (n !== undefined && n > MOST_DRAWS) {
        throw new ArgumentError('sampler.n', `expected at most ${MOST_DRAWS} draws, got ${n}`);
      }
      const asReference = profile === 'ragen';
      const all = trajectoriesOf(episodes, turns, asReference ? () => true : usable);
      const trajectories = asReference ? all.map((trajectory) => trajectory.filter(usable)) : all;
      const there = trajectories.reduce((total, trajectory) => total + trajectory.length, 0);
      if (there === 0) return new Int32Array(0);
      const draws: number[] = [];
      for (let left = asReference ? Math.min(n ?? there, there) : (n ?? there); left > 0; left--) {
        const trajectory = trajectories[random.below(trajectories.length)] as Trajectory;
        if (trajectory.length > 0) draws.push(trajectory[random.below(trajectory.length)] as number);
      }
      return Int32Array.from(draws);
    }
    default:
      throw new ArgumentError('sampler.kind', `expected first_turn, trajectory or turn, got ${shown(kind)}`);
  }
}

/**
 * Kish's effective sample size of draws with repeats: n² / Σ count².
 * @param rows [n] row of each draw, as `sampleRows` gives them
 * @returns between 1 and n; 0 of no draws
 * @throws {ArgumentError} unless `rows` is an array
 */
export function effectiveSize(rows: Int32Array): number {
  checkArray(rows, 'rows');
  const counts = new Map<number, number>();
  for (const row of rows) counts.set(row, (counts.get(row) ?? 0) + 1);
  let squares = 0;
  for (const count of counts.values()) squares += count * count;
  return squares === 0 ? 0 : rows.length ** 2 / squares;
}
