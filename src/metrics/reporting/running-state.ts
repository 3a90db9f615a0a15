// Carries the moving averages of the marginal's spread from step to step. Saves to JSON and continues exactly.

import { checkObject } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { count, either, fields, record, SavedState, shape } from '../../checks/saved.js';
import { shown } from '../../checks/words.js';
import { wholePower } from '../figures/whole-power.js';
import type { MarginalSpread, Profile, SampleLabel } from '../step-metrics.js';

/** The reference's decay, per computed step (docs/reference/metrics.md). */
const RAGEN_DECAY = 0.9;

/**
 * `strict` decays by training step, not by computed step (docs/reference/metrics.md): 0.9 per 5 steps, the reference's
 * default cadence. The fifth root of 0.9 in digits, as versions of Node differ in their roots' last bits.
 */
const STRICT_DECAY_PER_STEP = 0.9791483623609768;

/** JSON has no NaN: a spread that the reference's rules made NaN is written as null. */
const spread = either(
  (value) => value === null,
  () => Number.NaN,
  shape<number>('a standard deviation', (value) => typeof value === 'number' && !(value < 0)),
);

const savedState = new SavedState(
  {
    format: 'collapsar/running-state',
    version: 1,
    is: 'running state',
    from: 'RunningState.toJSON()',
    without: 'start a new RunningState',
  },
  fields({ averages: record(fields({ std: spread, stdSeq: spread, step: count })) }),
);
export const runningStateShape = savedState.shape;

/** A saved `RunningState`. */
export interface RunningStateJson {
  readonly format: 'collapsar/running-state';
  readonly version: 1;
  readonly averages: Readonly<Record<string, SavedSpread>>;
}

interface SavedSpread extends MarginalSpread {
  readonly step: number;
}

/**
 * @throws {ArgumentError} unless it is left out, or an integer: averages decay by the steps between, and NaN would stay
 *   in them
 */
export function checkTrainingStep(step: unknown, argument: string): void {
  if (step === undefined || (Number.isSafeInteger(step) && (step as number) >= 0)) return;
  throw new ArgumentError(
    argument,
    `got ${shown(step)}, expected the number of the training step, a whole number from 0 on`,
  );
}

function checkSpread(profile: unknown, label: unknown, current: MarginalSpread): void {
  if (profile !== 'strict' && profile !== 'ragen') {
    throw new ArgumentError('profile', `got ${shown(profile)}, expected "strict" or "ragen"`);
  }
  if (typeof label !== 'string') {
    throw new ArgumentError('label', `got ${shown(label)}, expected the prefix of the logged keys`);
  }
  checkObject(current, 'current');
  for (const name of ['std', 'stdSeq'] as const) {
    const spread: unknown = current[name];
    if (typeof spread === 'number' && !(spread < 0)) continue;
    throw new ArgumentError(`current.${name}`, `got ${shown(spread)}, expected a standard deviation`);
  }
}

/** One object a run. One average per profile and sample label. */
export class RunningState {
  readonly #averages = new Map<string, SavedSpread>();

  /**
   * Takes in the spread of one computed step and returns the average with it: the value itself the first time.
   * @param current of the step's marginals, nats; NaN if there is no spread, which `strict` passes over
   * @param step training step; default one after the last. A step that is not later than the last counts as the next
   *   one.
   * @throws {ArgumentError} for what would make a state that `from` does not take
   */
  update(profile: Profile, label: SampleLabel, current: MarginalSpread, step: number | undefined): MarginalSpread {
    checkSpread(profile, label, current);
    checkTrainingStep(step, 'step');
    const key = `${profile}/${label}`;
    const last = this.#averages.get(key);
    if (last === undefined) {
      this.#averages.set(key, { ...current, step: step ?? 1 });
      return current;
    }
    const elapsed = step === undefined ? 1 : Math.max(1, step - last.step);
    const keep = profile === 'ragen' ? RAGEN_DECAY : wholePower(STRICT_DECAY_PER_STEP, elapsed);
    // A step without a finite spread would poison every later one; the reference lets it.
    const mix = (old: number, now: number): number =>
      profile === 'strict' && !Number.isFinite(now) ? old : keep * old + (1 - keep) * now;
    const average = {
      std: mix(last.std, current.std),
      stdSeq: mix(last.stdSeq, current.stdSeq),
      step: last.step + elapsed,
    };
    this.#averages.set(key, average);
    return average;
  }

  /** All averages (nats) with their last steps: plain JSON. */
  toJSON(): RunningStateJson {
    return { format: 'collapsar/running-state', version: 1, averages: Object.fromEntries(this.#averages) };
  }

  /**
   * Continues where `toJSON` was called, to the bit.
   * @throws {StateError} if `json` is not what `toJSON` gave
   */
  static from(json: unknown): RunningState {
    const state = new RunningState();
    for (const [key, average] of Object.entries(savedState.read(json).averages)) state.#averages.set(key, average);
    return state;
  }
}
