// Plans which (row, prompt) pairs to score: every row under its own prompt and under m others. Scoring everything costs
// rows × prompts forward passes; estimates.ts says what fewer pairs can show.

import { checkArray, checkKnown, checkObject, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { counted } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { arrangeColumns, type Columns, countSignatures } from '../columns.js';
import { drawNegatives } from './draw.js';
import { canonicalTurns } from './prompt-turns.js';
import { allocate, type Stratum, strataOf } from './strata.js';
import { wholeNumbers } from './whole-numbers.js';

/** Ids of rows and prompts, as in CrossScores; no scores yet. */
export interface ScorePlanInput {
  /** [R] group id of each row: names the prompt that it was sampled from. */
  readonly groups: Integers;
  /** [R] reasoning tokens of each row. Rows of length 0 are not scored. */
  readonly lengths: Integers;
  /** [P] group id of each prompt. Default: the sorted distinct ids of `groups`. */
  readonly columnGroups?: Integers | undefined;
  /** [P] token ids of each prompt: prompts with equal tokens are scored once. Default: all differ. */
  readonly promptTokens?: readonly (readonly number[] | Int32Array | BigInt64Array)[] | undefined;
  /**
   * [P] turn of each prompt (see `turnsOfPrompts`): those of the row's own turn are hard negatives, drawn more often.
   */
  readonly promptTurns?: Integers | undefined;
}

/** Options of `planScores`. */
export interface ScorePlanOptions {
  /** Negatives of each row, at least 3 (4 with `promptTurns`); if there are no more, every pair is scored. */
  readonly negatives: number;
  /** The same seed draws the same pairs. Default 0. */
  readonly seed?: number | undefined;
  /** With `promptTurns`: share of the negatives that are of the own turn, 0 to 1. Default 0.5. */
  readonly hardShare?: number | undefined;
}

/** ScorePlanOptions with every default in place. */
export type PlanSettings = { readonly [Name in keyof ScorePlanOptions]-?: NonNullable<ScorePlanOptions[Name]> };

const PLAN_FIELDS = optionNames<ScorePlanInput>({
  groups: true,
  lengths: true,
  columnGroups: true,
  promptTokens: true,
  promptTurns: true,
});
/** Share of the negatives. */
export const HARD_SHARE_DEFAULT = 0.5;
export const HARD_SHARE = is.number('a number from 0 to 1', (share) => share >= 0 && share <= 1);

const OPTIONS: OptionTable<ScorePlanOptions> = {
  negatives: is.needed(
    is.number(
      'an integer from 3 on (fewer do not show the bias of a logarithm)',
      (count) => Number.isSafeInteger(count) && count >= 3,
    ),
  ),
  seed: is.integer(0),
  hardShare: HARD_SHARE,
};

/** (row, prompt) pairs; prompts are numbered as in the input. */
export interface Pairs {
  readonly rows: Int32Array;
  readonly prompts: Int32Array;
}

/** The pairs of one prompt: what a scorer does while the prompt's KV cache is at hand. */
export interface PromptPairs {
  readonly prompt: number;
  /** Ascending. */
  readonly rows: Int32Array;
  /** Index of the first of them in the plan's pairs; there are as many as `rows`. */
  readonly first: number;
}

/** How many pairs a plan scores, of how many there are. */
export interface PlanCost {
  readonly pairs: number;
  /** Pairs of a row with its own prompt, which a trainer mostly has scored already. */
  readonly ownPairs: number;
  /** Rows with reasoning × prompts. */
  readonly allPairs: number;
  /** The same, equal prompts counted once. */
  readonly distinctPairs: number;
  /** 1 − pairs / allPairs. */
  readonly saved: number;
}

/** One row of the plan, by signatures. */
export interface SampledRow {
  readonly row: number;
  /** Canonical column (ascending group id). */
  readonly ownColumn: number;
  readonly length: number;
  readonly strata: readonly Stratum[];
  /** Signatures drawn from each stratum, in the order drawn. */
  readonly drawn: readonly Int32Array[];
}

/** What estimates need to know of the plan's prompts. */
export interface PlanLayout {
  /** Input prompt at each canonical position (ascending group id). */
  readonly order: Int32Array;
  /** Signature of each canonical column, and how many columns have each. */
  readonly signatures: Int32Array;
  readonly counts: Int32Array;
  /** Turn of each canonical column, where negatives are drawn by turn. */
  readonly turns: Int32Array | undefined;
  /** Different prompts. */
  readonly distinct: number;
  /** Input prompt that is scored for each signature: its first one in canonical order. */
  readonly scored: Int32Array;
  /** Rows with reasoning, ascending. */
  readonly rows: readonly SampledRow[];
  readonly totalRows: number;
}

/** Which (row, prompt) pairs to score: every row under its own prompt and under some others. */
export interface ScorePlan extends Pairs {
  /** By rising prompt, then row; `rows` and `prompts` are in this order too. */
  readonly byPrompt: readonly PromptPairs[];
  /** [pairs] probability with which each pair was drawn; 1 for own pairs. */
  readonly inclusion: Float64Array;
  readonly negatives: number;
  readonly seed: number;
  /** Every pair of different prompts is scored: estimates are the figures themselves. */
  readonly complete: boolean;
  readonly cost: PlanCost;
  readonly layout: PlanLayout;
}

/**
 * Chooses the pairs to score: the own prompt of each row and `negatives` others, uniformly without replacement, or
 * `hardShare` of them among the prompts of the same turn. Every row draws for itself, by seed and row number only.
 * @throws {ArgumentError} for arguments that contradict each other or are out of range
 * @example
 * import { planScores } from 'collapsar/sampling';
 *
 * const plan = planScores({ groups, lengths }, { negatives: 6, seed: n });
 * for (const { prompt, rows } of plan.byPrompt) console.log(prompt, rows); // one KV cache a prompt
 */
export function planScores(input: ScorePlanInput, options: ScorePlanOptions): ScorePlan {
  checkOptions(options, OPTIONS);
  const { negatives, seed = 0, hardShare = HARD_SHARE_DEFAULT } = options;
  return drawPlan(checkPlanInput(input), { negatives, seed, hardShare });
}

/** What plans of a step are drawn from, known to be right. */
export interface PlanStep {
  readonly columns: Columns;
  /** [R] tokens of each row. */
  readonly lengths: ArrayLike<number>;
  /** [P] turn of each canonical column, numbered from 0; undefined if negatives are not drawn by turn. */
  readonly turns: Int32Array | undefined;
}

/** @throws {ArgumentError} naming what does not fit */
export function checkPlanInput(input: ScorePlanInput): PlanStep {
  checkObject(input, 'input');
  checkKnown(input, 'input', PLAN_FIELDS);
  const { groups, columnGroups, promptTokens, promptTurns } = input;
  checkArray(groups, 'groups');
  const lengths = wholeNumbers('lengths', input.lengths);
  if (lengths.length !== groups.length) {
    throw new ArgumentError('lengths', `${counted(lengths.length, 'lengths')} for ${counted(groups.length, 'rows')}`);
  }
  const columns = arrangeColumns(groups, columnGroups, promptTokens);
  const turns = promptTurns === undefined ? undefined : canonicalTurns(promptTurns, columns.order);
  return { columns, lengths, turns };
}

/** @throws {ArgumentError} for fewer negatives than the turns need */
export function drawPlan(step: PlanStep, options: PlanSettings): ScorePlan {
  const { negatives, seed } = options;
  const layout = layOut(step, options);
  return { ...pairsOf(layout), negatives, seed, layout };
}

function layOut({ columns, lengths, turns }: PlanStep, { negatives, seed, hardShare }: PlanSettings): PlanLayout {
  const counts = countSignatures(columns.signatures);
  const strata = strataOf(columns.signatures, counts, turns);
  const scored = new Int32Array(counts.length).fill(-1);
  columns.signatures.forEach((signature, column) => {
    if (scored[signature] === -1) scored[signature] = columns.order[column] as number;
  });
  const rows: SampledRow[] = [];
  for (let row = 0; row < lengths.length; row++) {
    const length = lengths[row] as number;
    if (length === 0) continue;
    const ownColumn = columns.own[row] as number;
    const of = strata[ownColumn] as Stratum[];
    const sizes = allocate(of, negatives, hardShare);
    const drawn = of.map((stratum, at) => drawNegatives(stratum, sizes[at] as number, seed, row, at));
    rows.push({ row, ownColumn, length, strata: of, drawn });
  }
  const distinct = counts.filter((count) => count > 0).length;
  return {
    order: columns.order,
    signatures: columns.signatures,
    counts,
    turns,
    distinct,
    scored,
    rows,
    totalRows: lengths.length,
  };
}

/** Pairs by prompt, then row: counted first, then written to where they belong. */
function pairsOf({ rows, signatures, scored, distinct }: PlanLayout) {
  /** Where the pairs of each prompt begin, and the end. */
  const offsets = new Float64Array(scored.length + 1);
  const count = (signature: number): void => {
    const at = (scored[signature] as number) + 1;
    offsets[at] = (offsets[at] as number) + 1;
  };
  let complete = true;
  for (const { ownColumn, strata, drawn } of rows) {
    count(signatures[ownColumn] as number);
    drawn.forEach((negatives, at) => {
      if (negatives.length < (strata[at] as Stratum).size) complete = false;
      negatives.forEach(count);
    });
  }
  for (let prompt = 0; prompt < scored.length; prompt++) {
    offsets[prompt + 1] = (offsets[prompt + 1] as number) + (offsets[prompt] as number);
  }
  const total = offsets[scored.length] as number;
  const result = { rows: new Int32Array(total), prompts: new Int32Array(total), inclusion: new Float64Array(total) };
  const next = offsets.slice();
  const put = (row: number, signature: number, probability: number): void => {
    const prompt = scored[signature] as number;
    const at = next[prompt] as number;
    next[prompt] = at + 1;
    result.rows[at] = row;
    result.prompts[at] = prompt;
    result.inclusion[at] = probability;
  };
  for (const { row, ownColumn, strata, drawn } of rows) {
    put(row, signatures[ownColumn] as number, 1);
    drawn.forEach((negatives, at) => {
      const { size } = strata[at] as Stratum;
      for (const signature of negatives) put(row, signature, negatives.length / size);
    });
  }
  const byPrompt: PromptPairs[] = [];
  for (let prompt = 0; prompt < scored.length; prompt++) {
    const [first, end] = [offsets[prompt] as number, offsets[prompt + 1] as number];
    if (end > first) byPrompt.push({ prompt, rows: result.rows.subarray(first, end), first });
  }
  const allPairs = rows.length * signatures.length;
  const cost: PlanCost = {
    pairs: total,
    ownPairs: rows.length,
    allPairs,
    distinctPairs: rows.length * distinct,
    saved: allPairs > 0 ? 1 - total / allPairs : 0,
  };
  return { ...result, byPrompt, complete, cost };
}
