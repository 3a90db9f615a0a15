// Scores in rounds until the interval of a figure is as narrow as wanted. The intervals of all K looks hold together
// (Bonferroni, level 1 − (1 − confidence)/K each), so stopping on the data is allowed.

import { checkEngine } from '../../checks/argument-checks.js';
import { StateError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import type { Engine } from '../../engine/engine.js';
import { CONFIDENCE } from '../../engine/operations/infer-pairs.js';
import { estimateFromPairs, type PairEstimates } from './estimates.js';
import { alignScores, type PairScores } from './pair-scores.js';
import {
  checkPlanInput,
  drawPlan,
  HARD_SHARE,
  HARD_SHARE_DEFAULT,
  type Pairs,
  type PlanStep,
  type PromptPairs,
  type ScorePlan,
  type ScorePlanInput,
} from './plan.js';

/** When rounds may end, and how they grow. */
export interface ScoreRoundsOptions {
  /** Wanted width (high − low) of the figure's interval, in its unit. */
  readonly width: number;
  /** Key of the figure. Default `mi_seq_estimate`. */
  readonly metric?: string | undefined;
  /** Which of its intervals. Default `batch`. */
  readonly estimand?: 'batch' | 'population' | undefined;
  /** Negatives of the first round, at least 3 (4 with promptTurns); every further round doubles them. Default 3 (4). */
  readonly first?: number | undefined;
  readonly seed?: number | undefined;
  readonly hardShare?: number | undefined;
  /** Default 0.95. */
  readonly confidence?: number | undefined;
}

/** Figures that rounds can stop by. */
const ROUND_METRICS: readonly string[] = [
  'mi_seq_estimate',
  'mi_seq_loo_estimate',
  'mi_per_token',
  'mi_estimate',
  'reasoning_entropy_est',
  'reasoning_entropy_seq_est',
];

const OPTIONS: OptionTable<ScoreRoundsOptions> = {
  width: is.needed(is.number('a number above 0', (width) => width > 0)),
  metric: is.oneOf(ROUND_METRICS),
  estimand: is.oneOf(['batch', 'population']),
  first: is.integer(3),
  seed: is.integer(0),
  hardShare: HARD_SHARE,
  confidence: CONFIDENCE,
};

/** The pairs to score next; prompts are numbered as in the input. */
export interface ScoreRound extends Pairs {
  /** From 1 on. */
  readonly round: number;
  /** Negatives of each row once these are scored. */
  readonly negatives: number;
  /** The same pairs by prompt. */
  readonly byPrompt: readonly PromptPairs[];
}

/** Why the scoring ended: narrow enough; all pairs are scored; or the noise of the responses by itself is too wide. */
export type RoundsEnd = 'width' | 'all scored' | 'responses';

/** Progress of scoring in rounds. */
export interface RoundsResult {
  readonly done: boolean;
  readonly reason: RoundsEnd | undefined;
  readonly rounds: number;
  /** Estimates of the last look, at its own level (`estimates.confidence`); undefined before the first. */
  readonly estimates: PairEstimates | undefined;
}

/**
 * Once draws of negatives and bias make less than this share of the interval's width, more scoring cannot narrow it
 * much.
 */
const WORTHWHILE = 0.1;

type Settings = Required<{ [K in keyof ScoreRoundsOptions]: NonNullable<ScoreRoundsOptions[K]> }>;

/**
 * Scoring in rounds until an interval is narrow enough: a few negatives a row first, then twice as many, and so on.
 * Scores are sums of log-probs in nats. docs/guide/cheaper-scoring.md says why the last interval still holds.
 */
export class ScoreRounds {
  readonly #engine: Engine;
  readonly #step: PlanStep;
  readonly #settings: Settings;
  /**
   * One plan a look, each containing the one before; the last is complete. Each is made when its round comes: all pairs
   * may be far more than what is ever scored.
   */
  readonly #plans: ScorePlan[];
  /** How many looks there are at most: what the level of each interval follows from. */
  readonly looks: number;
  /** Sums of each round, in the order of its pairs. */
  readonly #scores: Float64Array[] = [];
  #estimates: PairEstimates | undefined;
  #reason: RoundsEnd | undefined;

  #adding = false;

  /**
   * @param engine what computes the looks
   * @throws {ArgumentError} for input that planScores refuses, or an option out of range
   */
  constructor(engine: Engine, input: ScorePlanInput, options: ScoreRoundsOptions) {
    checkEngine(engine, 'engine');
    this.#engine = engine;
    this.#step = checkPlanInput(input);
    this.#settings = checked(options, input.promptTurns !== undefined);
    const { first, seed, hardShare } = this.#settings;
    const plan = drawPlan(this.#step, { negatives: first, seed, hardShare });
    this.#plans = [plan];
    const most = mostNegatives(plan);
    let looks = 1;
    for (let negatives = first; negatives < most; negatives *= 2) looks++;
    this.looks = looks;
  }

  /** The pairs to score now, the same until `add` has them; undefined when done. */
  next(): ScoreRound | undefined {
    return this.#reason === undefined ? this.#round(this.#scores.length) : undefined;
  }

  /**
   * Takes the scores of the round that `next` gave and looks. If it rejects, nothing is taken in.
   * @throws {ArgumentError} (as all, a rejection) if they are not one score for each pair of the round
   * @throws {StateError} if the scoring is done, or another call has not ended yet
   */
  async add(scores: PairScores, options: OperationOptions = {}): Promise<RoundsResult> {
    if (this.#adding) throw new StateError('the scores of this round are being taken in: await add() first');
    const round = this.next();
    if (round === undefined) throw new StateError('scoring is done: start new ScoreRounds for the next step');
    checkOptions(options);
    const sums = alignScores(round, scores);
    this.#adding = true;
    try {
      const { plan, estimates } = await this.#look([...this.#scores, sums], options);
      this.#scores.push(sums);
      this.#estimates = estimates;
      this.#reason = this.#endAfter(plan, estimates);
    } finally {
      this.#adding = false;
    }
    return this.result();
  }

  /** Progress: whether and why scoring is done, and the estimates of the last look. */
  result(): RoundsResult {
    return {
      done: this.#reason !== undefined,
      reason: this.#reason,
      rounds: this.#scores.length,
      estimates: this.#estimates,
    };
  }

  #plan(index: number): ScorePlan {
    const { first, seed, hardShare } = this.#settings;
    this.#plans[index] ??= drawPlan(this.#step, { negatives: first * 2 ** index, seed, hardShare });
    return this.#plans[index];
  }

  /** New arrays each time: a caller may transfer them. */
  #round(index: number): ScoreRound {
    return roundOf(index, this.#plan(index), index === 0 ? undefined : this.#plan(index - 1));
  }

  /** @param scores of each round */
  async #look(scores: readonly Float64Array[], options: OperationOptions) {
    const plan = this.#plan(scores.length - 1);
    const scored = {
      rows: new Int32Array(plan.rows.length),
      prompts: new Int32Array(plan.rows.length),
      sums: new Float64Array(plan.rows.length),
    };
    let end = 0;
    for (const [index, sums] of scores.entries()) {
      const { rows, prompts } = this.#round(index);
      scored.rows.set(rows, end);
      scored.prompts.set(prompts, end);
      scored.sums.set(sums, end);
      end += sums.length;
    }
    const confidence = 1 - (1 - this.#settings.confidence) / this.looks;
    return { plan, estimates: await estimateFromPairs(this.#engine, plan, scored, { ...options, confidence }) };
  }

  #endAfter(plan: ScorePlan, { certainty, error }: PairEstimates): RoundsEnd | undefined {
    const { metric, estimand, width } = this.#settings;
    const interval = certainty[metric]?.[estimand];
    const there = interval !== undefined && 'low' in interval ? interval : undefined;
    if (there !== undefined && there.high - there.low <= width) return 'width';
    if (plan.complete) return 'all scored';
    if (there === undefined) return undefined;
    // What would be left of the width if every pair were scored.
    const { negatives = 0, biasBelow = 0, biasAbove = 0 } = error[metric] ?? {};
    const noise = there.high - there.low - biasBelow - biasAbove;
    const left = noise * Math.sqrt(Math.max(0, 1 - (negatives / there.error) ** 2));
    return left > width && left > (1 - WORTHWHILE) * (there.high - there.low) ? 'responses' : undefined;
  }
}

/** The number of negatives a row with which every pair is scored. */
function mostNegatives({ layout }: ScorePlan): number {
  let most = 0;
  for (const { strata } of layout.rows) {
    let others = 0;
    for (const { size } of strata) others += size;
    if (others > most) most = others;
  }
  return most;
}

/** The pairs of a plan that one before it, which it contains, has not: both by prompt, then row. */
function roundOf(index: number, plan: ScorePlan, before: Pairs | undefined): ScoreRound {
  const count = plan.rows.length - (before?.rows.length ?? 0);
  const rows = new Int32Array(count);
  const prompts = new Int32Array(count);
  let known = 0;
  let fresh = 0;
  for (let at = 0; at < plan.rows.length; at++) {
    if (before?.rows[known] === plan.rows[at] && before?.prompts[known] === plan.prompts[at]) {
      known++;
      continue;
    }
    rows[fresh] = plan.rows[at] as number;
    prompts[fresh++] = plan.prompts[at] as number;
  }
  const byPrompt: PromptPairs[] = [];
  for (let first = 0; first < count; ) {
    let end = first + 1;
    while (end < count && prompts[end] === prompts[first]) end++;
    byPrompt.push({ prompt: prompts[first] as number, first, rows: rows.subarray(first, end) });
    first = end;
  }
  return { round: index + 1, negatives: plan.negatives, rows, prompts, byPrompt };
}

function checked(options: ScoreRoundsOptions, hard: boolean): Settings {
  checkOptions(options, OPTIONS);
  const { width, metric = 'mi_seq_estimate', estimand = 'batch', first = hard ? 4 : 3 } = options;
  const { seed = 0, hardShare = HARD_SHARE_DEFAULT, confidence = 0.95 } = options;
  return { width, metric, estimand, first, seed, hardShare, confidence };
}
