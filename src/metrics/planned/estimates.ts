// A plan and one score a pair in -> the step's figures with intervals that cover the sampling of responses and of negatives out.
// What all pairs would have given is what crossScoreMetrics gives; with a complete plan the two agree.
import { checkKnown, checkObject, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { rowsByEquivalents } from '../figures/chance.js';
import { isSaturated, mostInformation } from '../figures/saturation.js';
import { STRICT_KEYS } from '../figures/strict.js';
import { amongKeys } from '../figures/subset-figures.js';
import { noRowLeft, type RowsLeftOut } from '../sampling/rows-left-out.js';
import type { Certainty, Interval } from '../step-metrics.js';
import { expectationHolds, scoresDescribeSampling } from './calibration-check.js';
import type { PlannedFigure } from './figures.js';
import { batchInterval, biasAllowance, populationInterval } from './intervals.js';
import { alignScores, checkPlan, type PairScores } from './pair-scores.js';
import type { PlanCost, PlanLayout, ScorePlan } from './plan.js';
import { addRetrieval, NO_PERMUTATIONS } from './retrieval-figures.js';
import type { ScoredRow } from './row.js';
import { scoredRows } from './scored-rows.js';
import { atOnce, type Interruptible } from './slices.js';
import { type PlannedSums, sumPlannedRows } from './sums.js';

export interface EstimateOptions {
  /** Of the intervals, in (0, 1). Default .95. */
  readonly confidence?: number | undefined;
}

const OPTIONS = optionNames<EstimateOptions>({ confidence: true });

/** Where the batch error of a figure comes from. All in the figure's unit. */
export interface ErrorParts {
  /** Standard error from the sampling of responses. */
  readonly responses: number;
  /** Standard error from the drawing of negatives; 0 where all are scored. */
  readonly negatives: number;
  /** By how much the interval reaches further down and up for bias that may remain. */
  readonly biasBelow: number;
  readonly biasAbove: number;
}

/** What a plan tells of the metrics from all pairs: estimates in nats, errors, intervals, and certain bounds. */
export interface PairEstimates {
  /** Figure by key of `strict` (docs/reference/metrics.md), as crossScoreMetrics names it; also `retrieval_accuracy_of_<c>`. */
  readonly values: Readonly<Record<string, number>>;
  /** Key -> why it cannot be given. */
  readonly absent: Readonly<Record<string, string>>;
  readonly certainty: Readonly<Record<string, Certainty>>;
  readonly error: Readonly<Record<string, ErrorParts>>;
  /** What is certain of retrieval figures that cannot be estimated: their value for these rows lies within. */
  readonly bounds: Readonly<Record<string, { readonly low: number; readonly high: number }>>;
  readonly notes: readonly string[];
  readonly rows: {
    readonly total: number;
    readonly used: number;
    readonly zeroLength: number;
    /** Rows left out because a score of theirs is NaN or infinite. */
    readonly nonFinite: readonly number[];
    /** Rows left out because all of their scores are 0, which no log-probs are. Missing where there are none. */
    readonly placeholders?: readonly number[];
  };
  readonly cost: PlanCost;
  readonly confidence: number;
}

const FIGURE_OF: Readonly<Record<string, PlannedFigure>> = {
  mi_seq_estimate: 'miSeq',
  mi_seq_loo_estimate: 'miSeqLoo',
  mi_per_token: 'miPerToken',
  mi_estimate: 'miToken',
  reasoning_entropy_seq_est: 'entropySeq',
  reasoning_entropy_est: 'entropyToken',
};

/**
 * The figures of a step from the scores of a plan's pairs. Computed on the calling thread before it returns, in some .05 ms a
 * row with six negatives, .5 ms with thirty; a Monitor lets the event loop turn meanwhile.
 * @param plan of `planScores`
 * @param scores one sum a pair, in any order; nats
 * @throws {ArgumentError} for scores that are not those of the plan's pairs, or a confidence outside (0, 1)
 */
export function estimateFromPairs(plan: ScorePlan, scores: PairScores, options: EstimateOptions = {}): PairEstimates {
  return atOnce(estimation(plan, scores, options));
}

/** The same, to be interrupted between rows. */
export function* estimation(
  plan: ScorePlan,
  scores: PairScores,
  options: EstimateOptions = {},
): Interruptible<PairEstimates> {
  checkPlan(plan);
  checkObject(scores, 'scores');
  checkObject(options, 'options');
  checkKnown(options, 'options', OPTIONS);
  const { confidence = 0.95 } = options;
  if (typeof confidence !== 'number' || !(confidence > 0 && confidence < 1)) {
    throw new ArgumentError('options.confidence', `expected a number between 0 and 1, got ${shown(confidence)}`);
  }
  const sums = alignScores(plan, scores);
  yield;
  const { layout } = plan;
  const { scored, nonFinite, placeholders } = yield* scoredRows(plan, sums);
  const report = {
    rows: {
      total: layout.totalRows,
      used: scored.length,
      zeroLength: layout.totalRows - layout.rows.length,
      nonFinite,
      ...(placeholders.length > 0 && { placeholders }),
    },
    cost: plan.cost,
    confidence,
  };
  const keys = [...STRICT_KEYS, ...amongKeys(layout.distinct)];
  const nothing = (reason: string): PairEstimates => ({
    ...report,
    values: {},
    absent: Object.fromEntries(keys.map((key) => [key, reason])),
    certainty: {},
    error: {},
    bounds: {},
    notes: [reason],
  });
  if (layout.rows.length === 0) return nothing('no row has reasoning tokens');
  const prompts = layout.signatures.length;
  if (prompts < 2) {
    const few = nothing(`MI and retrieval need at least 2 prompts; this step has ${prompts}`);
    return { ...few, rows: { ...few.rows, used: layout.rows.length, nonFinite: [] } };
  }
  const leftOut = { nonFinite, placeholders };
  if (scored.length === 0) return nothing(noRowLeft(leftOut));
  return { ...report, ...(yield* everything(plan, scored, leftOut, confidence)) };
}

function* everything(
  plan: ScorePlan,
  scored: readonly ScoredRow[],
  { nonFinite, placeholders }: RowsLeftOut,
  confidence: number,
): Interruptible<Pick<PairEstimates, 'values' | 'absent' | 'certainty' | 'error' | 'bounds' | 'notes'>> {
  const { layout, complete } = plan;
  const sums = yield* sumPlannedRows(scored, layout);
  const values: Record<string, number> = {};
  const absent: Record<string, string> = {};
  const certainty: Record<string, Certainty> = {};
  const error: Record<string, ErrorParts> = {};
  const notes: string[] = [];
  const sampled = scoresDescribeSampling(sums, complete);
  const calibrated = sampled && expectationHolds(sums, complete);

  for (const [key, figure] of Object.entries(FIGURE_OF)) {
    const value = sums.mean[figure];
    if (!Number.isFinite(value)) {
      absent[key] = whyNot(figure, layout, complete);
      continue;
    }
    values[key] = value;
    const batch = batchInterval(sums, figure, calibrated, confidence);
    certainty[key] = {
      batch,
      population: populationInterval(sums, figure, calibrated, confidence),
      pValue: { absent: NO_PERMUTATIONS },
    };
    error[key] = partsOf(sums, figure, batch);
    yield;
  }
  values.mi_upper_bound = Math.log(layout.signatures.length);
  values.mi_attainable_bound = Math.log(layout.distinct);
  values.matched_log_prob_mean = sums.matchedTokenMean;
  values.conditional_entropy_est = -sums.matchedTokenMean;
  values.conditional_entropy_seq_est = -sums.matchedSeqMean;
  negate('reasoning_entropy_est', 'marginal_log_prob_mean', values, certainty, error);

  const most = mostInformation(rowsByEquivalents(sums.own, layout.signatures, layout.counts));
  const saturated = isSaturated(values.mi_seq_estimate ?? 0, most);
  if (values.mi_seq_estimate !== undefined) values.mi_saturated = saturated ? 1 : 0;
  if (saturated) notes.push('MI is saturated: the true value may be larger than this many prompts can show');
  // As crossScoreMetrics says of its intervals: a prompt's only row shows no spread of its own.
  if (sums.rowsOf.includes(1)) {
    notes.push(
      'some prompt has one row only: batch intervals take the spread between prompts for noise and are too wide',
    );
  }
  if (!sampled) {
    notes.push(
      'the responses do not look sampled from the scored distribution (labels of other rows, another temperature, a ' +
        'mask, rows picked by reward?): batch intervals rest on the spread of the rows alone and may be too narrow with few rows a prompt',
    );
  }
  if (nonFinite.length > 0) {
    notes.push(`rows left out for a score that is NaN or infinite: ${nonFinite.length}`);
  }
  if (placeholders.length > 0) {
    notes.push(`rows left out for a score of 0 under every prompt (placeholders?): ${placeholders.length}`);
  }
  const bounds = yield* addRetrieval(plan, scored, sums, confidence, { values, absent, certainty });
  for (const key of [...STRICT_KEYS, ...amongKeys(layout.distinct)]) {
    if (key in values || key in absent) continue;
    absent[key] = complete
      ? 'every pair is scored: crossScoreMetrics gives it from completeSums'
      : 'needs every pair: it is about the spread, the entropy or the scores over all prompts, which draws of negatives blur';
  }
  return { values, absent, certainty, error, bounds, notes };
}

function whyNot(figure: PlannedFigure, layout: PlanLayout, complete: boolean): string {
  if (figure !== 'miSeqLoo') return 'some row has a marginal that is not finite';
  if (layout.distinct < 2)
    return 'all columns have the same prompt, so that none is left when the own prompt is left out';
  return complete
    ? 'every other prompt gives some row a log-prob of minus infinity, so that its leave-one-out value is infinite'
    : 'every other prompt scored gives some row a log-prob of minus infinity, so that its leave-one-out value is infinite';
}

function partsOf(sums: PlannedSums, figure: PlannedFigure, batch: Interval): ErrorParts {
  const whole = 'error' in batch ? batch.error ** 2 : Number.NaN;
  const negatives = sums.drawVariance[figure];
  const bias = biasAllowance(sums, figure);
  return {
    responses: Math.sqrt(Math.max(0, whole - negatives)),
    negatives: Math.sqrt(negatives),
    biasBelow: bias.below,
    biasAbove: bias.above,
  };
}

/** The figure `key` as −`of`, with its intervals turned round. */
function negate(
  of: string,
  key: string,
  values: Record<string, number>,
  certainty: Record<string, Certainty>,
  error: Record<string, ErrorParts>,
): void {
  const value = values[of];
  const known = certainty[of];
  if (value === undefined || known === undefined) return;
  const turned = (interval: Interval): Interval =>
    'low' in interval ? { low: -interval.high, high: -interval.low, error: interval.error } : interval;
  values[key] = -value;
  certainty[key] = { ...known, batch: turned(known.batch), population: turned(known.population) };
  const parts = error[of] as ErrorParts;
  error[key] = { ...parts, biasBelow: parts.biasAbove, biasAbove: parts.biasBelow };
}
