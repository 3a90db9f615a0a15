// Turns the engine's results for subsets of prompts into values, intervals and reasons under their keys, so that
// batches of different sizes compare (docs/reference/metrics.md, `mi_seq_at_<k>` and `mi_seq_margin`).
import type {
  AmongInference,
  OverPrompts,
  StepInference,
  SubsetInference,
} from '../../engine/operations/infer-step.js';
import type { Certainty } from '../step-metrics.js';
import { interval } from './certainty.js';
import { amongErrorKey, amongKey, PROMPT_ERROR_KEY } from './score-figures.js';

const POPULATION = 'is given for these very prompts: how it would vary with other prompts is not estimated';
const TOO_FEW_PROMPTS = 'too few different prompts with rows: at least three are needed';
const P_VALUE = 'has no permutations of its own: see the p-value of mi_seq_estimate';

interface SubsetFigures {
  readonly values: Record<string, number>;
  readonly absent: Record<string, string>;
  readonly certainty: Record<string, Certainty>;
  readonly overPrompts: Record<string, OverPrompts>;
  readonly notes: string[];
}

/**
 * @param rowsAsDrawn of the same prompts, with each row as often as a sampler drew it: what values are means over
 * @param rowsOnce of each row once: what intervals are of
 * @param widening √(rows drawn / Kish's effective number of them)
 */
export function subsetFigures(rowsAsDrawn: StepInference, rowsOnce: StepInference, widening: number): SubsetFigures {
  const figures: SubsetFigures = { values: {}, absent: {}, certainty: {}, overPrompts: {}, notes: [] };
  const add = (key: string, { estimate: value }: SubsetInference, once: SubsetInference, most: number): void => {
    figures.values[key] = value;
    const place = { value, from: once.estimate, to: value, widening, least: Number.NEGATIVE_INFINITY, most };
    const { batchLow, batchHigh, batchError } = once;
    figures.certainty[key] = {
      batch: interval(batchLow, batchHigh, batchError, place, 'too few rows: at least two are needed'),
      population: { absent: POPULATION },
      pValue: { absent: P_VALUE },
    };
  };
  const addOverPrompts = (key: string, errorKey: string, { estimate, error: once }: OverPrompts): void => {
    const error = widening * once;
    if (!Number.isFinite(error)) {
      figures.absent[errorKey] = TOO_FEW_PROMPTS;
      return;
    }
    figures.values[errorKey] = error;
    figures.overPrompts[key] = { estimate, error };
  };
  rowsAsDrawn.among.forEach((among, at) => {
    const { prompts, estimate } = among;
    const once = rowsOnce.among[at] as AmongInference;
    add(amongKey(prompts), among, once, Math.max(estimate, Math.log(prompts)));
    addOverPrompts(amongKey(prompts), amongErrorKey(prompts), once.overPrompts);
  });
  addOverPrompts('mi_seq_estimate', PROMPT_ERROR_KEY, rowsOnce.overPrompts);
  addMargin(rowsAsDrawn, rowsOnce, figures, add);
  return figures;
}

function addMargin(
  { among, margin }: StepInference,
  rowsOnce: StepInference,
  { values, absent, notes }: SubsetFigures,
  add: (key: string, asDrawn: SubsetInference, once: SubsetInference, most: number) => void,
): void {
  if (among.length === 0) {
    for (const key of ['mi_seq_margin', 'mi_seq_margin_rows_left_out'])
      absent[key] = 'all columns have the same prompt: there is no other';
    return;
  }
  values.mi_seq_margin_rows_left_out = rowsOnce.rows - rowsOnce.margin.rows;
  if (margin.rows === 0) {
    absent.mi_seq_margin = 'every row is impossible (a log-prob of minus infinity) under some other prompt';
    return;
  }
  add('mi_seq_margin', margin, rowsOnce.margin, Number.POSITIVE_INFINITY);
  const left = values.mi_seq_margin_rows_left_out;
  if (left > 0) {
    notes.push(
      `mi_seq_margin leaves out ${left} of ${rowsOnce.rows} rows: they are impossible (a log-prob of minus infinity) under ` +
        'some other prompt, and their margin is infinite',
    );
  }
}
