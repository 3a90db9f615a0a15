// Estimates a step's metrics from the scores of a plan's pairs (docs/guide/cheaper-scoring.md).
import type { OperationOptions } from '../checks/operation-options.js';
import type { Engine } from '../engine/engine.js';
import type { HostTensor } from '../engine/tensor/tensor.js';
import { metricsOfScores } from '../metrics/cross-score-metrics.js';
import type { MetricOptions } from '../metrics/cross-scores.js';
import { flattenCertainty } from '../metrics/figures/certainty.js';
import type { CheckedScores } from '../metrics/metric-arguments.js';
import { estimateFromPairs } from '../metrics/sampled/estimates.js';
import { completeSums } from '../metrics/sampled/pair-scores.js';
import type { ScorePlan } from '../metrics/sampled/plan.js';
import type { SampleLabel, StepMetrics } from '../metrics/step-metrics.js';

const LABEL: SampleLabel = 'collapse_first_turn_sample';

/**
 * log p(z|x) of every row, which a plan always has scored, however few the negatives: for the judge, as `perRow` of
 * whole metrics.
 * @param metrics of the same scores
 * @returns [R], NaN if the metrics left the row out
 */
export function sampledMatched(plan: ScorePlan, { given, shape }: CheckedScores, metrics: StepMetrics): Float64Array {
  const { layout } = plan;
  const { rows, columns: prompts } = shape;
  const { data } = given.tensor as HostTensor;
  const matched = new Float64Array(rows).fill(Number.NaN);
  for (const { row, ownColumn } of layout.rows) {
    const scored = layout.scored[layout.signatures[ownColumn] as number] as number;
    matched[row] = data[row * prompts + scored] as number;
  }
  const { nonFinite, placeholders = [] } = metrics.rows;
  for (const row of [...nonFinite, ...placeholders]) matched[row] = Number.NaN;
  return matched;
}

/** @param scores sums [R, P] that hold the plan's pairs */
export async function sampledMetrics(
  engine: Engine,
  plan: ScorePlan,
  scores: CheckedScores,
  options: Omit<MetricOptions, 'sampler'> & OperationOptions,
): Promise<StepMetrics> {
  const prompts = scores.shape.columns;
  const { data } = scores.given.tensor as HostTensor;
  const sums = Float64Array.from(plan.rows, (row, at) => data[row * prompts + (plan.prompts[at] as number)] as number);
  if (plan.complete) {
    const given = { kind: 'sums', tensor: completeSums(plan, { sums }) } as const;
    return metricsOfScores(engine, { ...scores, given }, options);
  }
  const { values, absent, certainty, notes, rows, bounds, cost } = await estimateFromPairs(
    engine,
    plan,
    { sums },
    { signal: options.signal },
  );
  const logged: Record<string, number> = {
    'collapse/first_turn_num_total': rows.total,
    'collapse/first_turn_num_valid': rows.total - rows.zeroLength,
    'collapse/first_turn_valid_rate': rows.total > 0 ? (rows.total - rows.zeroLength) / rows.total : 0,
    [`${LABEL}/scored_pairs`]: cost.pairs,
    [`${LABEL}/scored_pairs_saved`]: cost.saved,
  };
  for (const [key, value] of Object.entries({ ...values, ...flattenCertainty(certainty) }))
    logged[`${LABEL}/${key}`] = value;
  for (const [key, { low, high }] of Object.entries(bounds)) {
    logged[`${LABEL}/${key}_at_least`] = low;
    logged[`${LABEL}/${key}_at_most`] = high;
  }
  return {
    profile: 'strict',
    label: LABEL,
    values,
    absent,
    certainty,
    notes: [
      `estimated from ${cost.pairs} of ${cost.allPairs} (row, prompt) pairs`,
      ...notes,
      ...environmentsNote(scores, cost),
    ],
    rows,
    columns: { total: plan.layout.signatures.length, distinct: plan.layout.distinct },
    logged,
  };
}

/** Few of a plan's pairs are of one environment: too few for figures of its own. */
function environmentsNote({ environments }: CheckedScores, { pairs, allPairs }: ScorePlan['cost']): string[] {
  const count = environments?.names.length ?? 0;
  if (count < 2) return [];
  return [
    `the ${count} environments have no figures of their own from cross-scores, and are not judged by them: that takes all ` +
      `(row, prompt) pairs, and ${pairs} of ${allPairs} are scored; without \`negatives\` (None in Python) all are`,
  ];
}
