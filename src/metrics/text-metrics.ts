// One step's texts in, what they say of the prompts out: the figures of docs/reference/text-figures.md under their
// keys.

import { checkCount, checkEngine, checkObject, checkOptions, optionNames } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import type { TemplatePhrase, TextFigures } from '../engine/operations/text-figures.js';
import type { TextRows } from '../engine/operations/text-rows.js';
import type { Interval } from './step-metrics.js';

/** One step's rollouts, and what else their log says of each row. */
export interface TextStep extends TextRows {
  /** True (or 1) where the row was cut off by the length limit: for `truncated_share`. One entry a row. */
  readonly truncated?: readonly boolean[] | Uint8Array | undefined;
}

export interface TextMetricOptions extends OperationOptions {
  /** Label permutations for the p-value; 0 for none. Default 999. */
  permutations?: number | undefined;
  /** Of the permutations. Default 0. */
  seed?: number | undefined;
  /** The rows of the run's first step that had figures: each phrase is then also measured there. */
  firstStep?: TextRows | undefined;
}

const OPTIONS = optionNames<TextMetricOptions>({
  permutations: true,
  seed: true,
  firstStep: true,
  signal: true,
  onProgress: true,
});

/** A phrase of the template. */
export interface MeasuredPhrase extends TemplatePhrase {
  /** `share` at the run's first step. With the option `firstStep` only. */
  readonly shareAtFirstStep?: number;
}

/** One step's text figures, in nats where they are information. */
export interface TextMetrics {
  /** Figure by unprefixed key, such as `mi_bound`. docs/reference/text-figures.md lists every key. */
  readonly values: Readonly<Record<string, number>>;
  /** Key -> why this figure cannot be given. A key is in `values` or here, never in neither. */
  readonly absent: Readonly<Record<string, string>>;
  /** 95%, of `mi_bound`, for prompts drawn like these. */
  readonly interval: Interval;
  /** Permutation p-value of "the text ignores its prompt", or the reason why there is none. */
  readonly pValue: number | { readonly absent: string };
  /** Things a reader must know before trusting the figures, in words. */
  readonly notes: readonly string[];
  readonly rows: { readonly total: number; readonly used: number; readonly empty: number; readonly repeated: number };
  readonly prompts: { readonly used: number; readonly known: boolean };
  /** Only the prompts' own texts told prompts apart: too few prompts have two rows. */
  readonly byPrompts: boolean;
  /** The template itself: at most ten phrases, the one that most prompts hold first. */
  readonly phrases: readonly MeasuredPhrase[];
  /** `values` under the keys that are logged: `text/<key>`. */
  readonly logged: Readonly<Record<string, number>>;
}

const PROBLEMS = {
  too_few_rows:
    'fewer than two prompts have two rows with text, and some row’s prompt is not known: sample each prompt twice, or give the prompts',
  too_few_prompts: 'fewer than two prompts have a row with text',
  prompts_differ:
    'fewer than two prompts have two rows with text, and a group has rows of different prompts, so that these cannot speak for it',
} as const;

const RETRIEVALS = ['retrieval_accuracy', 'retrieval_accuracy@2', 'retrieval_accuracy@4', 'retrieval_accuracy@8'];

/**
 * How much a step's texts depend on their prompts (a lower bound of I(X;Z), from texts alone), and what they look like:
 * templates, repetition, copies.
 *
 * @param step one entry a row, in any order; texts, or token ids
 * @returns figures by key, with an interval and a p-value for the bound, and the reason for every figure that cannot be
 *   given
 * @throws {ArgumentError} (as a rejection) for arguments that contradict each other; `signal.reason` when aborted
 * Source: D. Barber and F. Agakov, "The IM algorithm" (2003), for the bound; docs/reference/text-figures.md.
 * @example
 * const { values, pValue, phrases } = await textMetrics(engine, { texts, groups, prompts });
 */
export async function textMetrics(
  engine: Engine,
  step: TextStep,
  options: TextMetricOptions = {},
): Promise<TextMetrics> {
  checkEngine(engine, 'engine');
  checkObject(step, 'step');
  checkOptions(options, OPTIONS);
  const { permutations = 999, seed = 0, firstStep, signal, onProgress } = options;
  checkCount(permutations, 'options.permutations');
  checkCount(seed, 'options.seed');
  const { truncated, ...rows } = step;
  const total = (rows.texts ?? rows.tokens)?.length ?? 0;
  const cut = truncated === undefined ? undefined : truncatedRows(truncated, total);
  const figures = await engine.textFigures(rows, { permutations, seed, signal, onProgress });
  let phrases: readonly MeasuredPhrase[] = figures.phrases;
  if (firstStep !== undefined && phrases.length > 0) {
    const written = phrases.map(({ text, ids }) => ids ?? text);
    const shares = await engine.phraseShares(firstStep, written, { signal });
    phrases = phrases.map((phrase, at) => ({ ...phrase, shareAtFirstStep: shares[at] as number }));
  }
  return reported(figures, phrases, total, cut, permutations);
}

function truncatedRows(truncated: readonly boolean[] | Uint8Array, rows: number): number {
  if (!Array.isArray(truncated) && !(truncated instanceof Uint8Array)) {
    throw new ArgumentError('step.truncated', `got ${shown(truncated)}, expected an array of booleans or a Uint8Array`);
  }
  if (truncated.length !== rows)
    throw new ArgumentError('step.truncated', `${truncated.length} entries for ${rows} rows`);
  return (truncated as readonly (boolean | number)[]).reduce<number>((sum, cut) => sum + (cut ? 1 : 0), 0);
}

function reported(
  figures: TextFigures,
  phrases: readonly MeasuredPhrase[],
  total: number,
  cut: number | undefined,
  permutations: number,
): TextMetrics {
  const { problem, rows, rowsUsed: used, promptsUsed: prompts, byPrompts } = figures;
  const why = problem === null ? undefined : PROBLEMS[problem];
  const values: Record<string, number> = {};
  const absent: Record<string, string> = {};
  const put = (key: string, value: number, reason: string): void => {
    if (why !== undefined || Number.isNaN(value)) absent[key] = why ?? reason;
    else values[key] = value;
  };
  const never = 'cannot be given';
  put('rows_used', used, never);
  put('prompts_used', prompts, never);
  put('mi_bound', figures.miBound, never);
  put('mi_bound_standard_error', figures.miBoundError, never);
  put('mi_bound_low', figures.miBoundLow, never);
  put('mi_bound_high', figures.miBoundHigh, never);
  put('mi_bound_p_value', figures.pValue, 'no permutations were asked for');
  put('mi_bound_saturated', Number(figures.miBoundSaturated), never);
  put('mi_upper_bound', Math.log(prompts), never);
  RETRIEVALS.forEach((key, at) => {
    put(key, figures.retrieval[at] as number, `${2 ** at} of ${prompts} prompts are all of them`);
  });
  put('retrieval_chance_level', 1 / prompts, never);
  put('specificity', figures.specificity, never);
  put('half_split_statistic', figures.halfSplitStatistic, never);
  put('template_share', figures.templateShare, never);
  put('sibling_novelty', figures.siblingNovelty, 'no row of four tokens or more has a sibling');
  put('repetition', figures.repetition, 'no row has four tokens');
  put('duplicate_share', figures.duplicateShare, never);
  put('duplicate_across_share', figures.duplicateAcrossShare, never);
  const ofRows = (key: string, value: number): void => {
    if (rows === 0) absent[key] = 'the step has no rows';
    else values[key] = value;
  };
  ofRows('empty_share', figures.emptyRows / rows);
  ofRows('response_length/mean', figures.meanTokens);
  ofRows('response_length/min', figures.leastTokens);
  ofRows('response_length/max', figures.mostTokens);
  if (cut === undefined) absent.truncated_share = 'the log does not say which rows were truncated';
  else ofRows('truncated_share', cut / total);

  const { miBoundLow: low, miBoundHigh: high, miBoundError: error } = figures;
  const noPermutations = permutations === 0 ? 'no permutations were asked for' : undefined;
  const reason = why ?? noPermutations;
  return {
    values,
    absent,
    interval: why === undefined ? { low, high, error } : { absent: why },
    pValue: reason === undefined ? figures.pValue : { absent: reason },
    notes: notesOn(figures),
    rows: { total, used, empty: figures.emptyRows, repeated: total - rows },
    prompts: { used: prompts, known: figures.promptsKnown },
    byPrompts,
    phrases,
    logged: Object.fromEntries(Object.entries(values).map(([key, value]) => [`text/${key}`, value])),
  };
}

function notesOn({ problem, byPrompts, promptsKnown, miBoundSaturated }: TextFigures): string[] {
  if (problem !== null) return [];
  const notes: string[] = [];
  if (byPrompts) {
    notes.push('too few prompts have two rows: only what the texts share with their prompts is seen');
  } else if (!promptsKnown) {
    notes.push('the prompts’ texts are not known of every row: the bound is looser than it could be');
  }
  if (miBoundSaturated) {
    notes.push('mi_bound is at its ceiling ln P: a fall is seen late here, and specificity is the figure to watch');
  }
  return notes;
}
