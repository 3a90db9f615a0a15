// Scoring in rounds: pairs out, scores in, until the interval of a figure is as narrow as wanted. Saves to JSON between rounds.
//
// Why the interval holds although the data decide when to stop: the rounds (how many negatives each) are laid down beforehand, and
// each of the K looks has an interval of level 1 − (1 − confidence)/K. All K hold together with at least the wanted confidence
// (Bonferroni), so whichever one the stopping rule picks does. Rounds continue the same random order of negatives, so that at each
// look the ones scored are a plain random sample. The price is width: with four looks the interval is 27% wider than a single one.
import { checkArray, checkKnown, checkObject, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError, StateError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { estimateFromPairs, type PairEstimates } from './estimates.js';
import { alignScores, type PairScores } from './pair-scores.js';
import { type Pairs, PLAN_FIELDS, type PromptPairs, planScores, type ScorePlan, type ScorePlanInput } from './plan.js';

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
  /** Default .95. */
  readonly confidence?: number | undefined;
}

const OPTIONS = optionNames<ScoreRoundsOptions>({
  width: true,
  metric: true,
  estimand: true,
  first: true,
  seed: true,
  hardShare: true,
  confidence: true,
});

/** The pairs to score next; prompts are numbered as in the input. */
export interface ScoreRound extends Pairs {
  /** From 1 on. */
  readonly round: number;
  /** Negatives of each row once these are scored. */
  readonly negatives: number;
  /** The same pairs by prompt. */
  readonly byPrompt: readonly PromptPairs[];
}

/** Why the scoring ended: narrow enough; all pairs are scored; or the noise of the responses alone is too wide. */
export type RoundsEnd = 'width' | 'all scored' | 'responses';

export interface RoundsResult {
  readonly done: boolean;
  readonly reason: RoundsEnd | undefined;
  readonly rounds: number;
  /** Of the last look, at its own level (`estimates.confidence`); undefined before the first. */
  readonly estimates: PairEstimates | undefined;
}

export interface ScoreRoundsJson {
  readonly format: 'collapsar/score-rounds';
  readonly version: 1;
  readonly input: {
    readonly groups: readonly (number | string)[];
    readonly lengths: readonly number[];
    readonly columnGroups: readonly (number | string)[] | undefined;
    readonly promptTokens: readonly (readonly number[])[] | undefined;
    readonly promptTurns: readonly number[] | undefined;
  };
  readonly options: ScoreRoundsOptions;
  /** Of each round done: one sum a pair of that round; what JSON cannot hold as text. */
  readonly scores: readonly (readonly (number | string)[])[];
}

/** Once draws of negatives and bias make less than this share of the interval's width, more scoring cannot narrow it much. */
const WORTHWHILE = 0.1;

type Settings = Required<{ [K in keyof ScoreRoundsOptions]: NonNullable<ScoreRoundsOptions[K]> }>;

/**
 * Scoring in rounds until an interval is narrow enough: a few negatives a row first, then twice as many, and so on. Scores
 * are sums of log-probs in nats. docs/guide/cheaper-scoring.md says why the last interval still holds.
 */
export class ScoreRounds {
  readonly #input: ScorePlanInput;
  readonly #settings: Settings;
  /**
   * One plan a look, each containing the one before; the last is complete. Each is made when its round comes: all pairs may be far
   * more than what is ever scored.
   */
  readonly #plans: ScorePlan[];
  /** How many looks there are at most: what the level of each interval follows from. */
  readonly looks: number;
  /** Sums of each round, in the order of its pairs. */
  readonly #scores: Float64Array[] = [];
  #estimates: PairEstimates | undefined;
  #reason: RoundsEnd | undefined;

  /** @throws {ArgumentError} for input that planScores refuses, or an option out of range */
  constructor(input: ScorePlanInput, options: ScoreRoundsOptions) {
    this.#input = copyOf(input);
    this.#settings = checked(options, input.promptTurns !== undefined);
    const { first, seed, hardShare } = this.#settings;
    const plan = planScores(this.#input, { negatives: first, seed, hardShare });
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
   * Takes the scores of the round that `next` gave and looks.
   * @throws {ArgumentError} if they are not one score for each pair of the round; nothing is taken in then
   * @throws {StateError} if the scoring is done
   */
  add(scores: PairScores): RoundsResult {
    const round = this.next();
    if (round === undefined) throw new StateError('scoring is done: start new ScoreRounds for the next step');
    this.#scores.push(alignScores(round, scores));
    try {
      this.#look();
    } catch (error) {
      this.#scores.pop();
      throw error;
    }
    return this.result();
  }

  /** How it stands: whether and why scoring is done, and the estimates of the last look. */
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
    this.#plans[index] ??= planScores(this.#input, { negatives: first * 2 ** index, seed, hardShare });
    return this.#plans[index];
  }

  /** New arrays each time: whoever scores may send them away. */
  #round(index: number): ScoreRound {
    return roundOf(index, this.#plan(index), index === 0 ? undefined : this.#plan(index - 1));
  }

  #look(): void {
    const { confidence, metric, estimand, width } = this.#settings;
    const at = this.#scores.length - 1;
    const plan = this.#plan(at);
    const scored = {
      rows: new Int32Array(plan.rows.length),
      prompts: new Int32Array(plan.rows.length),
      sums: new Float64Array(plan.rows.length),
    };
    let end = 0;
    for (const [index, sums] of this.#scores.entries()) {
      const { rows, prompts } = this.#round(index);
      scored.rows.set(rows, end);
      scored.prompts.set(prompts, end);
      scored.sums.set(sums, end);
      end += sums.length;
    }
    const estimates = estimateFromPairs(plan, scored, { confidence: 1 - (1 - confidence) / this.looks });
    const interval = estimates.certainty[metric]?.[estimand];
    if (interval !== undefined && 'low' in interval && interval.high - interval.low <= width) this.#reason = 'width';
    else if (plan.complete) this.#reason = 'all scored';
    else if (interval !== undefined && 'low' in interval) {
      // What would be left of the width if every pair were scored.
      const parts = estimates.error[metric];
      const { negatives = 0, biasBelow = 0, biasAbove = 0 } = parts ?? {};
      const noise = interval.high - interval.low - biasBelow - biasAbove;
      const left = noise * Math.sqrt(Math.max(0, 1 - (negatives / interval.error) ** 2));
      if (left > width && left > (1 - WORTHWHILE) * (interval.high - interval.low)) this.#reason = 'responses';
    }
    this.#estimates = estimates;
  }

  /** Input, options and all scores so far (nats): plain JSON, from which `from` goes on. */
  toJSON(): ScoreRoundsJson {
    const { groups, lengths, columnGroups, promptTokens, promptTurns } = this.#input;
    const numbers = (values: Integers): number[] => Array.from(values as ArrayLike<number | bigint>, Number);
    return {
      format: 'collapsar/score-rounds',
      version: 1,
      input: {
        groups: idsToJson(groups),
        lengths: numbers(lengths),
        columnGroups: columnGroups && idsToJson(columnGroups),
        promptTokens: promptTokens?.map((tokens) => numbers(tokens)),
        promptTurns: promptTurns && numbers(promptTurns),
      },
      options: this.#settings,
      scores: this.#scores.map((sums) => Array.from(sums, (sum) => (Number.isFinite(sum) ? sum : String(sum)))),
    };
  }

  /**
   * Continues where `toJSON` was called, to the bit.
   * @throws {StateError} if `json` is not what `toJSON` gave
   */
  static from(json: unknown): ScoreRounds {
    const saved = json as Partial<ScoreRoundsJson> | null;
    if (typeof saved !== 'object' || saved === null || saved.format !== 'collapsar/score-rounds') {
      throw new StateError('not scoring rounds of collapsar: expected the object that ScoreRounds.toJSON() gave');
    }
    if (saved.version !== 1) {
      throw new StateError(
        `scoring rounds of version ${shown(saved.version)}; this release reads version 1: go on with the release that saved ` +
          'them, or start new ScoreRounds',
      );
    }
    try {
      const { input, options, scores } = saved as ScoreRoundsJson;
      const rounds = new ScoreRounds(
        {
          groups: idsFromJson(input.groups),
          lengths: input.lengths,
          columnGroups: input.columnGroups && idsFromJson(input.columnGroups),
          promptTokens: input.promptTokens,
          promptTurns: input.promptTurns,
        },
        options,
      );
      for (const sums of scores) rounds.add({ sums: sums.map(scoreFromJson) });
      return rounds;
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      throw new StateError(`scoring rounds are damaged: ${problem}; start new ScoreRounds`);
    }
  }
}

/** With so many negatives a row every pair is scored. */
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
  checkObject(options, 'options');
  checkKnown(options, 'options', OPTIONS);
  const { width, metric = 'mi_seq_estimate', estimand = 'batch', first = hard ? 4 : 3 } = options;
  const { seed = 0, hardShare = 0.5, confidence = 0.95 } = options;
  if (typeof width !== 'number' || !(width > 0)) {
    throw new ArgumentError('options.width', `expected a number above 0, got ${shown(width)}`);
  }
  if (!ROUND_METRICS.includes(metric)) {
    throw new ArgumentError('options.metric', `expected one of ${ROUND_METRICS.join(', ')}, got ${shown(metric)}`);
  }
  if (estimand !== 'batch' && estimand !== 'population') {
    throw new ArgumentError('options.estimand', `expected "batch" or "population", got ${shown(estimand)}`);
  }
  if (typeof confidence !== 'number' || !(confidence > 0 && confidence < 1)) {
    throw new ArgumentError('options.confidence', `expected a number between 0 and 1, got ${shown(confidence)}`);
  }
  if (!Number.isSafeInteger(first) || first < 3) {
    throw new ArgumentError('options.first', `expected a whole number from 3 on, got ${shown(first)}`);
  }
  return { width, metric, estimand, first, seed, hardShare, confidence };
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

function copyOf(input: ScorePlanInput): ScorePlanInput {
  checkObject(input, 'input');
  checkKnown(input, 'input', PLAN_FIELDS);
  const { groups, lengths, columnGroups, promptTokens, promptTurns } = input;
  for (const [name, values] of Object.entries({ groups, lengths })) checkArray(values, name);
  for (const [name, values] of Object.entries({ columnGroups, promptTokens, promptTurns })) {
    if (values !== undefined) checkArray(values, name);
  }
  promptTokens?.forEach((tokens, prompt) => {
    checkArray(tokens, `promptTokens[${prompt}]`);
  });
  return {
    groups: groups.slice() as Integers,
    lengths: lengths.slice() as Integers,
    columnGroups: columnGroups?.slice() as Integers | undefined,
    promptTokens: promptTokens?.map((tokens) => tokens.slice()),
    promptTurns: promptTurns?.slice() as Integers | undefined,
  };
}

/** 64-bit ids that a number cannot hold go as text. */
function idsToJson(ids: Integers): (number | string)[] {
  return Array.from(ids as ArrayLike<number | bigint>, (id) =>
    Number.isSafeInteger(Number(id)) ? Number(id) : String(id),
  );
}

function idsFromJson(ids: readonly (number | string)[]): Integers {
  return ids.some((id) => typeof id === 'string') ? BigInt64Array.from(ids, (id) => BigInt(id)) : (ids as number[]);
}

function scoreFromJson(score: number | string): number {
  if (typeof score === 'number') return score;
  const value = SCORES_AS_TEXT.get(score);
  if (value === undefined) throw new StateError(`a score is ${shown(score)}, expected a number`);
  return value;
}

/** Those that JSON has no number for. */
const SCORES_AS_TEXT: ReadonlyMap<string, number> = new Map(
  [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((score) => [String(score), score]),
);
