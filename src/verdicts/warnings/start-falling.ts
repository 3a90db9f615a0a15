// A run whose first steps fall already: said at once, and later steps are compared with the highest level among the
// first ones.
import { figure, percent } from '../../checks/numbers.js';
import { count, fields, kept, nullable, oneOf, type Shaped } from '../../checks/saved.js';
import type { Instrument } from '../levels/instrument.js';
import type { MiLevels } from '../levels/mi-levels.js';
import { mean, type RunLevel, START_STEPS, START_WINDOW } from '../levels/run-level.js';
import { HEALTHY_SHARE } from '../statistics/present-level.js';
import { rankTrend } from '../statistics/rank-trend.js';
import { studentTail } from '../statistics/tail-probabilities.js';
import type { Finding } from '../verdict.js';

/** Number of latest steps whose mean is the present level. */
const PRESENT_STEPS = 2;

const foundShape = nullable(fields({ since: count, figure: oneOf('mi', 'margin') }));
type Found = Shaped<typeof foundShape>;

/** What is said; null while nothing is. */
export const startFallingShape = fields({ found: foundShape });

export class StartFalling extends kept(startFallingShape) {
  /** After the step's values were added. */
  look(mi: MiLevels, margin: RunLevel, entropy: RunLevel, instrument: Instrument, tests = 1): Finding | undefined {
    const ofMi = mi.fullest;
    if (ofMi === undefined) return undefined;
    this.state.found ??= this.#found(mi, ofMi, margin, entropy, tests);
    const { found } = this.state;
    if (found === null) return undefined;
    const level = found.figure === 'mi' ? ofMi : margin;
    const now = level.recentMean(PRESENT_STEPS);
    if (now < HEALTHY_SHARE * level.start) return startFalling(found, level, now, instrument);
    this.state.found = null;
    return undefined;
  }

  /** A collapse says more. */
  forget(): void {
    this.state.found = null;
  }

  #found(mi: MiLevels, ofMi: RunLevel, margin: RunLevel, entropy: RunLevel, tests: number): Found {
    if (mi.steps < START_STEPS || mi.steps > START_WINDOW || ofMi.fallsFromStart) return null;
    // Where entropy falls as well, I(X;Z) may have to.
    const [first] = entropy.first as readonly [number];
    if (entropy.recentMean(PRESENT_STEPS) < HEALTHY_SHARE * first) return null;
    const figure = fallsFromStart(ofMi, tests) ? 'mi' : fallsFromStart(margin, tests) ? 'margin' : null;
    if (figure === null) return null;
    for (const { level } of mi.all) level.noteFallFromStart();
    margin.noteFallFromStart();
    const { recent } = figure === 'mi' ? ofMi : margin;
    return { since: recent.reduce((top, entry) => (entry.value >= top.value ? entry : top)).step, figure };
  }
}

function startFalling(
  { since, figure: of }: NonNullable<Found>,
  level: RunLevel,
  now: number,
  { source, mi, marginUnit, remark }: Instrument,
): Finding {
  const isMi = of === 'mi';
  const margin = source === 'scores' ? 'the contrastive margin of I(X;Z)' : 'the specificity of the texts';
  const name = isMi ? mi : margin;
  return {
    kind: 'start_falling',
    severity: 'warning',
    since,
    evidence: { figure: of, recent: now, start: level.start, share: now / level.start },
    advice:
      'The first steps are no start to compare with: go back to a checkpoint from before the run, and train on prompts with ' +
      'high reward variance only, with a lower learning rate or entropy bonus.',
    now: `${name} is ${figure(now)}, ${percent(now / level.start)} of that level`,
    sentence:
      `From the run's first steps on, ${name} falls: it is ${figure(now)} ${isMi ? 'nats a response' : marginUnit}, ${percent(now / level.start)} of ` +
      `its highest level there (${figure(level.start)}), which later steps are compared with.${remark}`,
  };
}

/**
 * A fall of the start to more than this share is too small to tell: the highest of a few first values is itself high by
 * chance.
 */
const LOSS_SHARE = 0.6;

/**
 * Chance of as clear a trend at one look in values that only scatter (exact Mann–Kendall). There are four looks, at 5
 * to 8 values.
 */
const TREND_LEVEL = 0.01;

/** Chance of as large a fall along the line through the values, were it to LOSS_SHARE only. */
const LINE_LEVEL = 0.03;

/** The same of a sudden fall, which shows no trend on either side. */
const STEP_LEVEL = 0.002;

/** Fewest values before and after a sudden fall. */
const [BEFORE, AFTER] = [3, 2];

/**
 * Whether the level's first values fall credibly, to credibly less than LOSS_SHARE of what they were.
 * @param tests that share a level
 */
export function fallsFromStart({ first, noise }: RunLevel, tests = 1): boolean {
  if (first.length < START_STEPS) return false;
  if (rankTrend(first).pDown <= TREND_LEVEL / tests && lineLossP(first, noise) <= LINE_LEVEL) return true;
  for (let at = BEFORE; at <= first.length - AFTER; at++) {
    if (stepLossP(first, at, noise) <= STEP_LEVEL / tests) return true;
  }
  return false;
}

/** One-sided p of the last point of the least-squares line, were it at LOSS_SHARE of the first. */
function lineLossP(values: readonly number[], noise: number): number {
  const n = values.length;
  const middle = (n - 1) / 2;
  const squares = (n * (n * n - 1)) / 12;
  const level = mean(values);
  const slope = values.reduce((sum, value, at) => sum + (at - middle) * value, 0) / squares;
  const rest = values.reduce((sum, value, at) => sum + (value - level - slope * (at - middle)) ** 2, 0);
  const spread = Math.max(noise, Math.sqrt(rest / (n - 2)));
  const [ofLevel, ofSlope] = [LOSS_SHARE - 1, -middle * (LOSS_SHARE + 1)];
  const gap = ofLevel * level + ofSlope * slope;
  const error = spread * Math.sqrt(ofLevel ** 2 / n + ofSlope ** 2 / squares);
  return tail(gap, error, n - 2);
}

/** One-sided p of the mean from `at` on, were it LOSS_SHARE of the mean before. */
function stepLossP(values: readonly number[], at: number, noise: number): number {
  const parts = [values.slice(0, at), values.slice(at)];
  const [before, after] = parts.map(mean) as [number, number];
  const rest = parts.reduce((sum, part) => {
    const level = mean(part);
    return sum + part.reduce((squares, value) => squares + (value - level) ** 2, 0);
  }, 0);
  const freedom = values.length - 2;
  const spread = Math.max(noise, Math.sqrt(rest / freedom));
  const error = spread * Math.sqrt(LOSS_SHARE ** 2 / at + 1 / (values.length - at));
  return tail(LOSS_SHARE * before - after, error, freedom);
}

/** Values that do not scatter: any gap counts, none does not. */
function tail(gap: number, error: number, freedom: number): number {
  if (error === 0) return gap > 0 ? 0 : 1;
  return studentTail(gap / error, freedom);
}
