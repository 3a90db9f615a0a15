// Estimates a step's figures from a plan's pair scores, with intervals that cover the sampling of responses and
// negatives. A complete plan gives the same figures as crossScoreMetrics.

import { checkEngine, checkObject } from '../../checks/argument-checks.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { checkOptions, OPERATION, type OptionTable } from '../../checks/options.js';
import type { Engine } from '../../engine/engine.js';
import type { PairInference, SampledFigure, SampledFigureName } from '../../engine/operations/infer-pairs.js';
import { CONFIDENCE } from '../../engine/operations/infer-pairs.js';
import { rowsByEquivalents } from '../figures/chance.js';
import { addDerivedCertainty, isDerived, valuesOf } from '../figures/derived.js';
import { type DerivedFigure, NO_MARGINAL, type PairsFound } from '../figures/figure.js';
import { OF_PROFILE, strictKeys } from '../figures/step-figures.js';
import { noRowLeft } from '../sampling/rows-left-out.js';
import type { Certainty } from '../step-metrics.js';
import { aboveZeroError, isAboveZero } from '../sums-above-zero.js';
import { alignScores, checkPlan, type PairScores } from './pair-scores.js';
import type { PlanCost, ScorePlan } from './plan.js';
import { accuracyAmongBest, addAccuraciesOfCandidates, intervalOf, NO_PERMUTATIONS } from './retrieval-figures.js';

/** Options of `estimateFromPairs`. */
export interface EstimateOptions extends OperationOptions {
  /** Level of the intervals, in (0, 1). Default 0.95. */
  readonly confidence?: number | undefined;
}

const OPTIONS: OptionTable<EstimateOptions> = { confidence: CONFIDENCE, ...OPERATION };

/** Where the batch error of a figure comes from. All in the figure's unit. */
export interface ErrorParts {
  /** Standard error from the sampling of responses. */
  readonly responses: number;
  /** Standard error from the drawing of negatives; 0 if all are scored. */
  readonly negatives: number;
  /** By how much the interval reaches further down and up for bias that may remain. */
  readonly biasBelow: number;
  readonly biasAbove: number;
}

/** What a plan's pairs say of the metrics from all pairs: estimates in nats, errors, intervals, and certain bounds. */
export interface PairEstimates {
  /**
   * Figure by key of `strict` (docs/reference/metrics.md), as crossScoreMetrics names it; also
   * `retrieval_accuracy_of_<c>`.
   */
  readonly values: Readonly<Record<string, number>>;
  /** Reasons by key of figures that cannot be given. */
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
    /** Rows left out because all of their scores are 0, as log-probs never are. Missing if there are none. */
    readonly placeholders?: readonly number[];
  };
  readonly cost: PlanCost;
  readonly confidence: number;
}

const NO_ROWS = 'too few rows: at least two are needed';
const NO_PROMPTS = 'too few prompts with rows: at least three are needed';

/**
 * The figures of a step from the scores of a plan's pairs, computed on the engine's threads.
 * @param plan of `planScores`
 * @param scores one sum a pair, in any order; nats
 * @throws {ArgumentError} (as a rejection) for scores that are not those of the plan's pairs, or a confidence outside
 *   (0, 1); `signal.reason` when aborted
 * @example
 * import { estimateFromPairs, planScores } from 'collapsar/sampling';
 *
 * const plan = planScores({ groups, lengths }, { negatives: 6 });
 * const sums = await policy.scorePairs(plan.rows, plan.prompts); // one sum of log-probs a pair
 * const { values, certainty } = await estimateFromPairs(engine, plan, { sums });
 */
export async function estimateFromPairs(
  engine: Engine,
  plan: ScorePlan,
  scores: PairScores,
  options: EstimateOptions = {},
): Promise<PairEstimates> {
  checkEngine(engine, 'engine');
  checkPlan(plan);
  checkObject(scores, 'scores');
  checkOptions(options, OPTIONS);
  const { confidence = 0.95 } = options;
  const sums = alignScores(plan, scores);
  refuseAboveZero(plan, sums);
  const { layout, cost } = plan;
  const [total, scored, prompts] = [layout.totalRows, layout.rows.length, layout.signatures.length];
  const rows = { total, used: scored, zeroLength: total - scored, nonFinite: [] };
  const keys = strictKeys(layout.distinct);
  const nothing = (reason: string, left: PairEstimates['rows'] = rows): PairEstimates => ({
    rows: left,
    cost,
    confidence,
    values: {},
    absent: Object.fromEntries(keys.map((key) => [key, reason])),
    certainty: {},
    error: {},
    bounds: {},
    notes: [reason],
  });
  if (scored === 0) return nothing('no row has reasoning tokens');
  if (prompts < 2) return nothing(`MI and retrieval need at least 2 prompts; this step has ${prompts}`);
  const inference = await inferPlan(engine, plan, sums, { ...options, confidence });
  const { used, nonFinite, placeholders } = inference;
  const left = { ...rows, used, nonFinite, ...(placeholders.length > 0 && { placeholders }) };
  if (used === 0) return nothing(noRowLeft({ nonFinite, placeholders }), left);
  return { rows: left, cost, confidence, ...everything(plan, inference, keys) };
}

/** @throws {ArgumentError} naming the first pair whose log-probs sum to more than 0 */
function refuseAboveZero({ rows, prompts, layout }: ScorePlan, sums: Float64Array): void {
  const lengths = new Map(layout.rows.map(({ row, length }) => [row, length]));
  for (let at = 0; at < sums.length; at++) {
    const [sum, tokens] = [sums[at] as number, lengths.get(rows[at] as number) as number];
    if (isAboveZero(sum, tokens))
      throw aboveZeroError('scores.sums', `row ${rows[at]} under prompt ${prompts[at]}`, sum, tokens);
  }
}

/** @param sums in the plan's order */
function inferPlan(
  engine: Engine,
  { rows, prompts, layout }: ScorePlan,
  sums: Float64Array,
  options: EstimateOptions,
): Promise<PairInference> {
  const { order, signatures, turns } = layout;
  const own = new Int32Array(layout.totalRows);
  const lengths = new Array<number>(layout.totalRows).fill(0);
  for (const { row, ownColumn, length } of layout.rows) {
    own[row] = ownColumn;
    lengths[row] = length;
  }
  const columnOf = new Int32Array(order.length);
  for (let column = 0; column < order.length; column++) columnOf[order[column] as number] = column;
  const columns = prompts.map((prompt) => columnOf[prompt] as number);
  // The plan's own array stays transferable.
  const pairs = { rows: rows.slice(), columns, sums };
  return engine.inferPairs(pairs, { ...options, own, lengths, signatures, turns });
}

function everything(
  plan: ScorePlan,
  inference: PairInference,
  keys: readonly string[],
): Pick<PairEstimates, 'values' | 'absent' | 'certainty' | 'error' | 'bounds' | 'notes'> {
  const { layout, complete } = plan;
  const { nonFinite, placeholders } = inference;
  const left = new Set([...nonFinite, ...placeholders]);
  const own = Int32Array.from(
    layout.rows.filter(({ row }) => !left.has(row)),
    ({ ownColumn }) => ownColumn,
  );
  const found: PairsFound = { layout, inference, alike: rowsByEquivalents(own, layout.signatures, layout.counts) };
  const [certainty, error]: [Record<string, Certainty>, Record<string, ErrorParts>] = [{}, {}];
  const bounds: Record<string, { readonly low: number; readonly high: number }> = {};
  const notes: string[] = [];
  const figures = valuesOf(OF_PROFILE.strict, ({ key, ofPairs }) => {
    if (ofPairs === 'every pair') return undefined;
    if ('best' in ofPairs) {
      const accuracy = accuracyAmongBest(ofPairs.best, plan, inference);
      if (accuracy.bounds !== undefined) bounds[key] = accuracy.bounds;
      return accuracy.value;
    }
    if ('value' in ofPairs) {
      const value = ofPairs.value(found);
      const note = typeof value === 'number' ? ofPairs.note?.(value) : undefined;
      if (note !== undefined) notes.push(note);
      return value;
    }
    const figure = inference.figures[ofPairs.estimate];
    if (!Number.isFinite(figure.estimate)) return whyNot(ofPairs.estimate, plan);
    certainty[key] = {
      batch: intervalOf(figure.batch, NO_ROWS),
      population: intervalOf(figure.population, NO_PROMPTS),
      pValue: { absent: NO_PERMUTATIONS },
    };
    error[key] = partsOf(figure);
    return figure.estimate;
  });
  const { values, absent } = figures;
  addDerivedCertainty(certainty, values);
  for (const entry of OF_PROFILE.strict) {
    if (!isDerived(entry)) continue;
    const { key, of, by } = entry;
    if (of in bounds) absent[key] = `${of} cannot be given: see there`;
    const [parts, value] = [error[of], values[key]];
    if (parts !== undefined && value !== undefined) error[key] = derivedParts(parts, by, value);
  }
  addAccuraciesOfCandidates(plan, inference, { values, absent, certainty });

  const rowsOf = new Int32Array(layout.signatures.length);
  for (const column of own) rowsOf[column] = (rowsOf[column] as number) + 1;
  // As crossScoreMetrics says of its intervals: a prompt's only row shows no spread of its own.
  if (rowsOf.includes(1)) {
    notes.push(
      'some prompt has one row only: batch intervals take the spread between prompts for noise and are too wide',
    );
  }
  if (!inference.describesSampling) {
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
  for (const key of keys) {
    if (key in values || key in absent) continue;
    absent[key] = complete
      ? 'every pair is scored: crossScoreMetrics gives it from completeSums'
      : 'needs every pair: it is about the spread, the entropy or the scores over all prompts, which draws of negatives blur';
  }
  return { values, absent, certainty, error, bounds, notes };
}

function whyNot(figure: SampledFigureName, { layout, complete }: ScorePlan): string {
  if (figure !== 'miSeqLoo') return NO_MARGINAL;
  if (layout.distinct < 2)
    return 'all columns have the same prompt, so that none is left when the own prompt is left out';
  const others = complete ? 'every other prompt' : 'every other prompt scored';
  return `${others} gives some row a log-prob of minus infinity, so that its leave-one-out value is infinite`;
}

function partsOf({ batch, drawVariance, biasBelow, biasAbove }: SampledFigure): ErrorParts {
  return {
    responses: Math.sqrt(Math.max(0, batch.error ** 2 - drawVariance)),
    negatives: Math.sqrt(drawVariance),
    biasBelow,
    biasAbove,
  };
}

/** The parts of a figure that follows from another one of these. @param value of the figure that follows */
function derivedParts(parts: ErrorParts, by: DerivedFigure['by'], value: number): ErrorParts {
  const { responses, negatives, biasBelow, biasAbove } = parts;
  if (by === 'negative') return { responses, negatives, biasBelow: biasAbove, biasAbove: biasBelow };
  if (by !== 'exp') return parts;
  return {
    responses: value * responses,
    negatives: value * negatives,
    biasBelow: value * -Math.expm1(-biasBelow),
    biasAbove: value * Math.expm1(biasAbove),
  };
}
