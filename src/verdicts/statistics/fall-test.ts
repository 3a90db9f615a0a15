// Tests at every step whether a figure's level has certainly fallen by more than a share of d: the latest 2 to 16 steps
// against all before and the start (docs/reference/verdicts.md, `dependence_lower`). Steps older than 64 are summed.
import { count, fields, kept, list, notNegative, number, type Shaped, startOf } from '../../checks/saved.js';
import { wholePower } from '../../metrics/figures/whole-power.js';
import { floorUnder, varianceAt } from './dependence-scale.js';
import { studentTail } from './tail-probabilities.js';

/** Numbers of latest steps that are looked at. */
const WINDOWS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16];

/** Chance of one window at one step, were the level at the floor. */
const LEVEL = 5e-5;

/** A normal deviate that is less rare than that. */
const LEAST_DEVIATE = 3.8;

/** Chance at which the start must agree where the steps before the window decide. */
const AGREED_LEVEL = 0.05;

/** Steps that make the start: fewer until the run has EARLY_STEPS computed steps. */
const [FIRST_EARLY, FIRST, EARLY_STEPS] = [4, 8, 12];

/** Fewest steps before a window. */
const LEAST_BEFORE = 2;

/** Latest steps that are kept: 16 of a window, 32 differences before it, each over 4 steps. */
export const KEPT_STEPS = 64;

/** Differences that the run's own scatter is an average over, and how far apart the steps of the far ones are. */
const [MOST_DIFFERENCES, FAR] = [32, 4];

/** Far differences that decide by themselves; fewer are compared with near ones. */
const ENOUGH_FAR = 8;

/** Weight of the batch's own error against the run's scatter, in differences. */
const ERROR_WEIGHT = 4;

/** Assumed correlation with its neighbour of what scatters beyond the batch's error. */
const PERSISTENCE = 0.8;

/** The jackknife errors' degrees of freedom are at most these, and before a window a third of the prompts'. */
const [MOST_DEGREES, DEFLATED] = [200, 3];

const stepShape = fields({ step: count, value: number, error: number, prompts: number });

export const fallTestShape = fields({
  /** Different prompts that the figure is among, of several environments their mean; 0: not known. */
  among: notNegative,
  /** The latest steps, oldest first. */
  recent: list(stepShape, KEPT_STEPS),
  /** The first values. */
  first: list(number, FIRST),
  /** Steps older than the latest, and the sums over them. */
  older: fields({ steps: count, values: number, squaredErrors: number, variances: number, prompts: number }),
});
export type FallTestJson = Shaped<typeof fallTestShape>;
type TestedStep = FallTestJson['recent'][number];

/** Which steps a window was held against. */
export type Reference = 'before' | 'start';

/** The chances of one window, were no more than a share of d lost. */
export interface WindowTest {
  readonly window: number;
  /** Against all steps before the window. */
  readonly before: number;
  readonly start: number;
}

/** A fall that is beyond doubt. */
export interface Fall {
  readonly window: number;
  readonly reference: Reference;
  readonly p: number;
  /** The mean of the reference's steps, with its standard error by the batches' own. */
  readonly from: number;
  readonly fromError: number;
}

/** Between two values, with the variance at the level between. */
interface Difference {
  readonly change: number;
  readonly variance: number;
}

/** A window, and what it is held against. */
interface Look {
  readonly window: number;
  readonly level: number;
  /** c² of the window, and of what it is held against; the run's own scatter beyond it. */
  readonly spread: number;
  readonly spreadOfReference: number;
  readonly own: { readonly excess: number; readonly differences: number };
  readonly degreesBefore: number;
  readonly degrees: number;
  readonly before: { readonly steps: number; readonly level: number };
  readonly start: { readonly steps: number; readonly level: number };
}

/** Sums over steps. */
interface Sums {
  readonly steps: number;
  readonly values: number;
  readonly squaredErrors: number;
  readonly variances: number;
  readonly prompts: number;
}

const NOTHING: Sums = { steps: 0, values: 0, squaredErrors: 0, variances: 0, prompts: 0 };

export class FallTest extends kept(fallTestShape) {
  /** Of the latest steps: the variance at each value's level, and differences to steps before. */
  readonly #variances: number[] = [];
  readonly #near: Difference[] = [];
  readonly #far: Difference[] = [];
  /** Of the windows as of the last step; null until they are asked for. */
  #looks: Look[] | null = null;

  /** @param among different prompts that the figure is among; infinite if that is not known */
  constructor(among: number, saved?: FallTestJson) {
    super(saved ?? { ...startOf(fallTestShape), among: Number.isFinite(among) ? among : 0 });
    for (let at = 0; at < this.state.recent.length; at++) this.#prepare(at);
  }

  /** Infinite if it is not known. */
  get among(): number {
    return this.state.among || Number.POSITIVE_INFINITY;
  }

  get steps(): number {
    return this.state.older.steps + this.state.recent.length;
  }

  /** The latest steps, oldest first. */
  get recent(): readonly TestedStep[] {
    return this.state.recent;
  }

  /** c²: the squared errors of all steps, as a multiple of the variance that their levels have. */
  get dispersion(): number {
    const { squaredErrors, variances } = this.#sums(0);
    return squaredErrors / variances;
  }

  /** Takes in a step. @param prompts different ones of the step */
  add(step: number, value: number, error: number, prompts: number): void {
    const { recent, first, older } = this.state;
    if (first.length < FIRST) first.push(value);
    recent.push({ step, value, error, prompts });
    this.#prepare(recent.length - 1);
    this.#looks = null;
    if (recent.length <= KEPT_STEPS) return;
    const oldest = recent.shift() as TestedStep;
    this.#near.shift();
    this.#far.shift();
    older.steps++;
    older.values += oldest.value;
    older.squaredErrors += oldest.error ** 2;
    older.variances += this.#variances.shift() as number;
    older.prompts += oldest.prompts;
  }

  #prepare(at: number): void {
    const { recent } = this.state;
    const valueAt = (place: number): number => (recent[place] as TestedStep).value;
    const difference = (apart: number): Difference => {
      if (at < apart) return { change: 0, variance: 0 };
      const [now, then] = [valueAt(at), valueAt(at - apart)];
      return { change: now - then, variance: varianceAt((now + then) / 2, this.among) };
    };
    this.#variances.push(varianceAt(valueAt(at), this.among));
    this.#near.push(difference(1));
    this.#far.push(difference(FAR));
  }

  /** The chance of every window's level, or a lower one, were exactly the share `lost` of d gone. */
  windows(lost: number): WindowTest[] {
    return this.#allLooks().map((look) => this.#test(look, lost));
  }

  #allLooks(): readonly Look[] {
    this.#looks ??= WINDOWS.filter((window) => this.steps - window >= LEAST_BEFORE).map((window) => this.#look(window));
    return this.#looks;
  }

  #test(look: Look, lost: number): WindowTest {
    const chance = (reference: Look['start']): number => {
      const { t, freedom } = this.#statistic(look, reference, lost);
      return studentTail(t, freedom);
    };
    return { window: look.window, before: chance(look.before), start: chance(look.start) };
  }

  /**
   * The fall by more than the share `lost` of d, if one is beyond doubt: against the steps before the window where these
   * tell it, else against the start.
   * @param tests that share the level
   */
  fall(lost: number, tests = 1): Fall | undefined {
    let least: { test: WindowTest; reference: Reference } | undefined;
    const take = (test: WindowTest, reference: Reference): void => {
      const isBetter =
        least === undefined ||
        (reference === least.reference ? test[reference] < least.test[reference] : reference === 'before');
      if (isBetter) least = { test, reference };
    };
    for (const look of this.#allLooks()) {
      // No Student's t is as rare as a normal deviate of its size: most windows need no more.
      const isNear = (reference: Look['start']): boolean => this.#statistic(look, reference, lost).t > LEAST_DEVIATE;
      if (!isNear(look.before) && !isNear(look.start)) continue;
      const test = this.#test(look, lost);
      if (test.before <= LEVEL / tests && test.start <= AGREED_LEVEL) take(test, 'before');
      else if (test.start <= LEVEL / tests) take(test, 'start');
    }
    if (least === undefined) return undefined;
    const { test, reference } = least;
    const { window } = test;
    const { level: from, steps } = this.#reference(reference, window);
    const fromError = Math.sqrt((this.dispersion * varianceAt(from, this.among)) / steps);
    return { window, reference, p: test[reference], from, fromError };
  }

  /** The mean of the steps before the latest `window`, or of the start; of as many as there are. */
  level(reference: Reference, window: number): number {
    return this.#reference(reference, window).level;
  }

  #reference(reference: Reference, window: number): { steps: number; level: number } {
    const steps = Math.max(1, this.steps - window);
    if (reference === 'start') return this.#startOf(steps);
    return { steps, level: this.#sums(this.steps - steps).values / steps };
  }

  /** The mean of the latest `steps`, or of as many as there are. */
  recentMean(steps: number): number {
    const latest = this.state.recent.slice(-steps);
    return latest.reduce((sum, { value }) => sum + value, 0) / latest.length;
  }

  /** Over all steps but the latest `window`. */
  #sums(window: number): Sums {
    const { recent, older } = this.state;
    return this.#summed(0, recent.length - window, older);
  }

  /** Over the latest steps from one place to another, and those of `onto`. */
  #summed(from: number, to: number, onto: Sums = NOTHING): Sums {
    let { values, squaredErrors, variances, prompts } = onto;
    for (let at = from; at < to; at++) {
      const entry = this.state.recent[at] as TestedStep;
      values += entry.value;
      squaredErrors += entry.error ** 2;
      variances += this.#variances[at] as number;
      prompts += entry.prompts;
    }
    return { steps: onto.steps + to - from, values, squaredErrors, variances, prompts };
  }

  #startOf(before: number): { steps: number; level: number } {
    const steps = Math.min(this.steps > EARLY_STEPS ? FIRST : FIRST_EARLY, before);
    const first = this.state.first.slice(0, steps);
    return { steps, level: first.reduce((sum, value) => sum + value, 0) / steps };
  }

  /** What a window's tests have in common. */
  #look(window: number): Look {
    const before = this.#sums(window);
    const { recent } = this.state;
    const within = this.#summed(recent.length - window, recent.length);
    const spreadBefore = before.squaredErrors / before.variances;
    const promptsWithin = within.prompts / window;
    // Fewer prompts than before scatter more, whatever their own errors say.
    const fewer = Math.max(1, before.prompts / before.steps / promptsWithin);
    const spread = Math.max(within.squaredErrors / within.variances, spreadBefore * fewer);
    const end = Math.max(Math.min(before.steps, this.steps - FAR), Math.min(before.steps, 6));
    // The lowest counts as the second lowest: no one step decides.
    let [lowest, second] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let at = recent.length - window; at < recent.length; at++) {
      const { value } = recent[at] as TestedStep;
      if (value < lowest) [lowest, second] = [value, lowest];
      else if (value < second) second = value;
    }
    const degreesBefore = Math.min((before.prompts - before.steps) / DEFLATED, MOST_DEGREES);
    return {
      window,
      level: (within.values - lowest + second) / window,
      spread,
      spreadOfReference: Math.max(spreadBefore, spread),
      own: this.#ownScatter(end, spreadBefore),
      degreesBefore,
      degrees: Math.min(degreesBefore + Math.max((promptsWithin - 1) * window, 1), MOST_DEGREES),
      before: { steps: before.steps, level: before.values / before.steps },
      start: this.#startOf(before.steps),
    };
  }

  /** Student's t of a window's level, were exactly the share `lost` of d gone. */
  #statistic(look: Look, { steps, level: from }: Look['start'], lost: number): { t: number; freedom: number } {
    const { window, level, own, degrees, degreesBefore } = look;
    const floor = floorUnder(from, this.among, lost);
    const varianceNow = varianceAt(floor.at, this.among);
    const varianceFrom = floor.slope ** 2 * varianceAt(from, this.among);
    const ofWindow = (varianceNow * look.spread) / window;
    const ofReference = (varianceFrom * look.spreadOfReference) / steps;
    const ofRun = own.excess * (varianceNow * meanFactor(window) + varianceFrom * meanFactor(steps));
    const variance = ofWindow + ofReference + ofRun;
    const freedom =
      variance ** 2 /
      (ofWindow ** 2 / degrees + ofReference ** 2 / degreesBefore + ofRun ** 2 / (own.differences + 1) + 1e-300);
    return { t: (floor.at - level) / Math.sqrt(Math.max(variance, 1e-18)), freedom: Math.max(freedom, 1) };
  }

  /**
   * By how much the run scatters about its trend beyond the batch's own dispersion, as a multiple of the variance that
   * levels have: from at most MOST_DIFFERENCES differences up to step `end`.
   */
  #ownScatter(end: number, batch: number): { excess: number; differences: number } {
    const near = this.#differences(1, end);
    let scatter = near.scatter;
    const far = this.#differences(FAR, end);
    if (far.differences >= FAR) {
      scatter = far.differences >= ENOUGH_FAR ? far.scatter : Math.max(scatter, far.scatter);
    }
    const { differences } = near;
    const shrunk = (ERROR_WEIGHT * batch + differences * scatter) / (ERROR_WEIGHT + differences);
    return { excess: Math.max(shrunk - batch, 0), differences };
  }

  /** Half the mean square of differences of values `apart`, without their drift, as a multiple of the variance. */
  #differences(apart: number, end: number): { scatter: number; differences: number } {
    const { older } = this.state;
    const known = apart === 1 ? this.#near : this.#far;
    const from = Math.max(apart, end - MOST_DIFFERENCES);
    const differences = Math.max(0, end - from);
    let [squares, sum, variances] = [0, 0, 0];
    for (let at = from; at < end; at++) {
      const { change, variance } = known[at - older.steps] as Difference;
      squares += change ** 2;
      sum += change;
      variances += variance;
    }
    if (differences >= 2) squares = (squares - sum ** 2 / differences) * (differences / (differences - 1));
    return { scatter: squares / Math.max(variances, 1e-12) / 2, differences };
  }
}

/** Variance of the mean of `steps` successive values, of which neighbours are correlated by PERSISTENCE. */
export function meanFactor(steps: number): number {
  const rest = 1 - PERSISTENCE;
  const decay = 1 - wholePower(PERSISTENCE, steps);
  return (1 + 2 * (PERSISTENCE / rest) * (1 - decay / (steps * rest))) / steps;
}
