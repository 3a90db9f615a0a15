// Brings the scores of a plan's pairs into the plan's order, one sum per pair, and sums token log-probs per pair.

import { checkArray, checkEngine, checkObject } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { checkOptions } from '../../checks/options.js';
import { counted, shown } from '../../checks/words.js';
import type { Engine } from '../../engine/engine.js';
import { integerArray } from '../../engine/tensor/integers.js';
import type { Integers, Tensor } from '../../engine/tensor/tensor.js';
import { checkShape, checkTensor } from '../../engine/tensor/tensor-view.js';
import type { Pairs, ScorePlan } from './plan.js';

/** One score for every pair of the plan. */
export interface PairScores {
  /** [pairs] log p(row | prompt), nats, summed over the row's tokens. */
  readonly sums: ArrayLike<number>;
  /** [pairs] which pair each sum is of. Default: the plan's own order. Give both or none. */
  readonly rows?: Integers | undefined;
  readonly prompts?: Integers | undefined;
}

/**
 * @throws {ArgumentError} for what planScores did not give: plans that went through JSON have lost their typed arrays
 */
export function checkPlan(plan: ScorePlan): void {
  checkObject(plan, 'plan');
  const { rows, prompts, layout } = plan as Partial<ScorePlan>;
  if (rows instanceof Int32Array && prompts instanceof Int32Array && Array.isArray(layout?.rows)) return;
  throw new ArgumentError(
    'plan',
    `got ${shown(plan)}, expected what planScores() gives: a saved plan is drawn again from its input, negatives and seed`,
  );
}

/**
 * @param plan or any list of pairs, by prompt, then row
 * @returns [pairs] in the plan's order
 * @throws {ArgumentError} for a pair that is not in the plan, is given twice, or never
 */
export function alignScores(plan: Pairs, scores: PairScores): Float64Array {
  checkObject(scores, 'scores');
  const { sums, rows, prompts } = scores;
  checkArray(sums, 'scores.sums');
  const count = plan.rows.length;
  if ((rows === undefined) !== (prompts === undefined)) {
    throw new ArgumentError('scores', 'give both `rows` and `prompts` of the pairs, or neither');
  }
  if (sums.length !== count) {
    throw new ArgumentError(
      'scores.sums',
      `${counted(sums.length, 'sums')} for the ${counted(count, 'pairs')} of the plan; score each pair once`,
    );
  }
  const given = new Float64Array(count);
  for (let at = 0; at < count; at++) {
    const sum = sums[at];
    if (typeof sum !== 'number') {
      throw new ArgumentError('scores.sums', `entry ${at}: expected a number, got ${shown(sum)}`);
    }
    given[at] = sum;
  }
  if (rows === undefined || prompts === undefined) return given;
  for (const [name, values] of Object.entries({ rows, prompts })) {
    checkArray(values, `scores.${name}`);
    if (values.length !== count)
      throw new ArgumentError(`scores.${name}`, `${counted(values.length, 'entries')} for ${counted(count, 'sums')}`);
  }
  const aligned = new Float64Array(count);
  const taken = new Uint8Array(count);
  for (let at = 0; at < count; at++) {
    const place = placeOf(plan, Number(rows[at]), Number(prompts[at]));
    if (place === undefined || taken[place] === 1) {
      throw new ArgumentError(
        'scores',
        `row ${rows[at]} under prompt ${prompts[at]} ${place === undefined ? 'is not a pair of the plan' : 'is given twice'}`,
      );
    }
    taken[place] = 1;
    aligned[place] = given[at] as number;
  }
  return aligned;
}

/** Index of the pair in the plan, whose pairs are sorted by prompt, then row. */
function placeOf({ rows, prompts }: Pairs, row: number, prompt: number): number | undefined {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const by = (prompts[middle] as number) - prompt || (rows[middle] as number) - row;
    if (by < 0) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row && prompts[low] === prompt ? low : undefined;
}

/**
 * Sums the token log-probs of a plan's pairs with the engine, one sum per pair: the same bits as from its `sumTokens`.
 * @param logprobs [1, pairs, T] padded, or packed [1, N] with the tokens of each pair's row one after the other; pairs
 *   in the plan's order. Content past a row's length is ignored.
 * @param lengths [R] tokens of each row, as given to `planScores`
 * @returns [pairs], for `estimateFromPairs`
 * @throws {ArgumentError} (as a rejection) if shapes do not fit
 */
export async function sumPairTokens(
  engine: Engine,
  plan: ScorePlan,
  logprobs: Tensor,
  lengths: Integers,
  options: OperationOptions = {},
): Promise<Float64Array> {
  checkEngine(engine, 'engine');
  checkPlan(plan);
  checkOptions(options);
  checkTensor(logprobs, 'logprobs');
  checkArray(lengths, 'lengths');
  if (lengths.length !== plan.layout.totalRows) {
    throw new ArgumentError(
      'lengths',
      `${counted(lengths.length, 'lengths')} for ${counted(plan.layout.totalRows, 'rows')}`,
    );
  }
  const { shape } = checkShape(logprobs.shape, 'logprobs.shape');
  if (shape[0] !== 1) {
    throw new ArgumentError('logprobs', `expected shape [1, pairs, T] or [1, N], got [${shape.join(', ')}]`);
  }
  const tokens = integerArray(lengths, 'lengths');
  const ofPairs = Array.from(plan.rows, (row) => Number(tokens[row]));
  const { sums } = await engine.sumTokens(logprobs, ofPairs, options);
  return Float64Array.from(sums.data);
}

/**
 * The scores of a complete plan as the [R, P] matrix that crossScoreMetrics takes as `sums`, equal prompts filled in.
 * Rows without reasoning are 0.
 * @throws {ArgumentError} if the plan leaves pairs out, or the scores are not its own
 */
export function completeSums(plan: ScorePlan, scores: PairScores): Tensor {
  checkPlan(plan);
  if (!plan.complete) {
    throw new ArgumentError('plan', `leaves pairs out (${plan.negatives} negatives a row): use estimateFromPairs`);
  }
  const { signatures, order, scored, totalRows } = plan.layout;
  const columns = order.length;
  const data = new Float64Array(totalRows * columns);
  alignScores(plan, scores).forEach((sum, at) => {
    data[(plan.rows[at] as number) * columns + (plan.prompts[at] as number)] = sum;
  });
  for (let row = 0; row < totalRows; row++) {
    order.forEach((prompt, column) => {
      const source = scored[signatures[column] as number] as number;
      data[row * columns + prompt] = data[row * columns + source] as number;
    });
  }
  return { data, dtype: 'float64', shape: [totalRows, columns] };
}
