// Measures how a step's texts depend on their prompts: the figures of docs/reference/text-figures.md under their keys.

import { checkEngine, checkObject } from '../checks/argument-checks.js';
import { shareWithoutRounding, withoutRounding } from '../checks/numbers.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../checks/options.js';
import { type EnvironmentLabels, givenEnvironments, type RowEnvironments } from '../checks/row-environments.js';
import type { Engine } from '../engine/engine.js';
import type { RowReading } from '../engine/operations/texts/row-readings.js';
import type { ReadingOptions, TemplatePhrase, TextFigures } from '../engine/operations/texts/text-figures.js';
import type { TextPrompts } from '../engine/operations/texts/text-prompts.js';
import { groupIds, type TextRows } from '../engine/operations/texts/text-rows.js';
import { type EnvironmentFigures, loggedEnvironments, sharedPermutations } from './environments/environment-figures.js';
import { textBlocksNote } from './environments/text-blocks.js';
import { textEnvironments } from './environments/text-environments.js';
import type { ValuesOrReasons } from './figures/derived.js';
import { LOG_COLUMN_NAMES, logFigures, NO_ROWS, type RolloutFigures } from './figures/log-columns.js';
import { TEXT_FIGURES, WITHIN_TEXT_FIGURE } from './figures/text-entries.js';
import type { Interval } from './step-metrics.js';

/** One step's rollouts, and what else their log says of each row. */
export interface TextStep extends TextRows, RolloutFigures {
  /**
   * Name of each row's environment, null if it has none; a prompt has one. With two or more the figures also say what
   * each shows by itself.
   */
  readonly environments?: EnvironmentLabels | RowEnvironments | undefined;
}

/** Options of `textMetrics`. */
export interface TextMetricOptions extends OperationOptions {
  /** Label permutations for the p-value; 0 for none. Default 999. */
  permutations?: number | undefined;
  /** Seed of the permutations. Default 0. */
  seed?: number | undefined;
  /** The rows of the run's first step that had figures: each phrase is then also measured there. */
  firstStep?: TextRows | undefined;
  /** Also gives what there is of each prompt. Default false. */
  perPrompt?: boolean | undefined;
  /** Also reads some rows token by token: the most generic and the most specific ones. Default none. */
  readings?: ReadingOptions | undefined;
}

const OPTIONS: OptionTable<TextMetricOptions> = {
  permutations: is.integer(0),
  seed: is.integer(0),
  firstStep: is.any,
  perPrompt: is.flag,
  readings: is.any,
  ...OPERATION,
};

/** A phrase of the template. */
export interface MeasuredPhrase extends TemplatePhrase {
  /** `share` at the run's first step. With the option `firstStep` only. */
  readonly shareAtFirstStep?: number;
}

/** One step's text figures, in nats where they are information. */
export interface TextMetrics {
  /** Figure by unprefixed key, such as `mi_bound`. docs/reference/text-figures.md lists every key. */
  readonly values: Readonly<Record<string, number>>;
  /** Reasons by key of figures that cannot be given. Every key is in `values` or here. */
  readonly absent: Readonly<Record<string, string>>;
  /** 95%, of `mi_bound`, for prompts drawn like these. */
  readonly interval: Interval;
  /** Permutation p-value of "the text ignores its prompt", or the reason why there is none. */
  readonly pValue: number | { readonly absent: string };
  /** Things a reader must know before trusting the figures, in words. */
  readonly notes: readonly string[];
  readonly rows: { readonly total: number; readonly used: number; readonly empty: number; readonly repeated: number };
  readonly prompts: { readonly used: number; readonly known: boolean };
  /** Only the prompts' own texts distinguished prompts: too few prompts have two rows. */
  readonly byPrompts: boolean;
  /** The template itself: at most ten phrases, the one that most prompts hold first. */
  readonly phrases: readonly MeasuredPhrase[];
  /** Only if the option `perPrompt` asked for it, and there are figures. */
  readonly perPrompt?: TextPrompts;
  /** Only if the option `readings` asked for it, and there are figures. */
  readonly readings?: readonly RowReading[];
  /** What each environment shows by itself, where rows are named any. */
  readonly environments?: readonly EnvironmentFigures<TextMetrics>[];
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

/** Before the keys, where figures are logged. */
export const TEXT_PREFIX = 'text/';

const LENGTH_KEYS = ['response_length/mean', 'response_length/min', 'response_length/max'] as const;

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
 * import { textMetrics } from 'collapsar';
 *
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
  const { environments: labels, ...unnamed } = step;
  if (!isNamed(labels)) return withBlocksNote(engine, unnamed, options);
  const metrics = await measureTexts(engine, unnamed, options);
  const rows = (step.texts ?? step.tokens ?? []).length;
  const groups = step.groups ?? (step.promptTokens ?? step.prompts ?? new Array(rows)).map(promptKey);
  const environments = givenEnvironments(labels, groups, 'step.environments');
  return environments === undefined ? metrics : withEnvironments(engine, metrics, unnamed, environments, options);
}

/** Whether any row is labelled, or the labels cannot be read. */
function isNamed(labels: TextStep['environments']): labels is NonNullable<TextStep['environments']> {
  if (labels === undefined) return false;
  return !Array.isArray(labels) || labels.length === 0 || labels.some((label) => label !== null && label !== undefined);
}

/** Without named environments, a note if the prompts fall into groups like these. */
async function withBlocksNote(
  engine: Engine,
  step: Omit<TextStep, 'environments'>,
  options: TextMetricOptions,
): Promise<TextMetrics> {
  const { perPrompt: prompts, ...metrics } = await measureTexts(engine, step, { ...options, perPrompt: true });
  const { seed, signal } = options;
  const boundWithin = async (groups: RowEnvironments): Promise<number | undefined> => {
    const found = await textEnvironments(step, groups, metrics.prompts.used, (part) =>
      measureTexts(engine, part, { permutations: 0, seed, signal }),
    );
    return found.boundWithin;
  };
  const { pValue, notes } = metrics;
  const groups = groupIds(step, metrics.rows.total);
  const measured = { step, groups, prompts, bound: metrics.values.mi_bound, pValue };
  const note = await textBlocksNote(measured, boundWithin, signal);
  return {
    ...metrics,
    ...(note !== undefined && { notes: [...notes, note] }),
    ...(options.perPrompt === true && prompts && { perPrompt: prompts }),
  };
}

/** Id of a prompt whose rows have no group; without one either, measuring has said so. */
const promptKey = (prompt: unknown): string => String(prompt);

/** The same with the figures of each environment, as if nothing else were in the batch. */
async function withEnvironments(
  engine: Engine,
  metrics: TextMetrics,
  step: Omit<TextStep, 'environments'>,
  environments: RowEnvironments,
  { permutations = 999, seed, signal }: TextMetricOptions,
): Promise<TextMetrics> {
  const { values, absent, prompts } = metrics;
  const shared = sharedPermutations(permutations, environments.names.length);
  const found = await textEnvironments(step, environments, prompts.used, (part, isNamed) =>
    measureTexts(engine, part, { permutations: isNamed ? shared : 0, seed, signal }),
  );
  if (environments.names.length < 2) return { ...metrics, environments: found.environments };
  const { boundWithin } = found;
  const within: Record<string, number> = boundWithin === undefined ? {} : { [WITHIN_TEXT_FIGURE.key]: boundWithin };
  const reason = 'no environment has two prompts whose texts give a bound';
  const logged = { ...metrics.logged, ...loggedTexts(within), ...loggedEnvironments(found.environments) };
  return {
    ...metrics,
    values: { ...values, ...within },
    absent: boundWithin === undefined ? { ...absent, [WITHIN_TEXT_FIGURE.key]: reason } : absent,
    environments: found.environments,
    logged,
  };
}

/** All but what its environments show. */
async function measureTexts(
  engine: Engine,
  step: Omit<TextStep, 'environments'>,
  options: TextMetricOptions,
): Promise<TextMetrics> {
  const { permutations = 999, seed = 0, firstStep, perPrompt: prompts = false, readings } = options;
  const { signal, onProgress } = options;
  const total = (step.texts ?? step.tokens)?.length ?? 0;
  const beside = logFigures(step, total);
  const rows: TextRows = { ...step };
  for (const name of LOG_COLUMN_NAMES) delete (rows as RolloutFigures)[name];
  const figures = await engine.textFigures(rows, { permutations, seed, prompts, readings, signal, onProgress });
  const phrases =
    firstStep === undefined ? figures.phrases : await sharesAtFirst(engine, figures.phrases, firstStep, signal);
  return reported(figures, phrases, total, beside, permutations);
}

/** The phrases, each with what it covers of the run's first step. */
export async function sharesAtFirst(
  engine: Engine,
  phrases: readonly TemplatePhrase[],
  firstStep: TextRows,
  signal: AbortSignal | undefined,
): Promise<readonly MeasuredPhrase[]> {
  if (phrases.length === 0) return phrases;
  const written = phrases.map(({ text, ids }) => ids ?? text);
  const shares = await engine.phraseShares(firstStep, written, { signal });
  return phrases.map((phrase, at) => ({ ...phrase, shareAtFirstStep: shares[at] as number }));
}

/**
 * What the log of a step without texts, or without groups, still says: lengths, entropies, the share of truncated rows.
 */
export function textMetricsWithout(
  reason: string,
  rows: RolloutFigures & { readonly total: number; readonly lengths?: ArrayLike<number> | undefined },
): TextMetrics {
  const { total, lengths, ...figures } = rows;
  const beside = logFigures(figures, total);
  const absent: Record<string, string> = { ...beside.absent };
  for (const { key } of TEXT_FIGURES) if (!(key in beside.values)) absent[key] ??= reason;
  const values = { ...beside.values };
  const known = Array.from(lengths ?? []).filter((length) => Number.isFinite(length));
  if (known.length > 0) {
    const [mean, min, max] = LENGTH_KEYS;
    values[mean] = known.reduce((sum, length) => sum + length, 0) / known.length;
    values[min] = known.reduce((least, length) => Math.min(least, length));
    values[max] = known.reduce((most, length) => Math.max(most, length));
    for (const key of LENGTH_KEYS) delete absent[key];
  }
  return {
    values,
    absent,
    interval: { absent: reason },
    pValue: { absent: reason },
    notes: [],
    rows: { total, used: 0, empty: 0, repeated: 0 },
    prompts: { used: 0, known: false },
    byPrompts: false,
    phrases: [],
    logged: loggedTexts(values),
  };
}

function loggedTexts(values: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`${TEXT_PREFIX}${key}`, value]));
}

function reported(
  figures: TextFigures,
  phrases: readonly MeasuredPhrase[],
  total: number,
  beside: ValuesOrReasons,
  permutations: number,
): TextMetrics {
  const { problem, rows, rowsUsed: used, promptsUsed: prompts, byPrompts } = figures;
  const why = problem === null ? undefined : PROBLEMS[problem];
  const values: Record<string, number> = {};
  const absent: Record<string, string> = {};
  for (const entry of TEXT_FIGURES) {
    if (entry.of === 'log') continue;
    const { key, of, value, absent: reason = 'cannot be given', isShare } = entry;
    const found = value(figures);
    if (of === 'rows') {
      if (rows === 0) absent[key] = NO_ROWS;
      else values[key] = found;
    } else if (why !== undefined || Number.isNaN(found)) {
      absent[key] = why ?? (typeof reason === 'string' ? reason : reason(figures));
    } else values[key] = isShare === true ? shareWithoutRounding(found) : withoutRounding(found);
  }
  Object.assign(values, beside.values);
  Object.assign(absent, beside.absent);

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
    ...(figures.prompts && { perPrompt: figures.prompts }),
    ...(figures.readings && { readings: figures.readings }),
    logged: loggedTexts(values),
  };
}

function notesOn({ problem, byPrompts, promptsKnown, miBoundSaturated }: TextFigures): string[] {
  if (problem !== null) return [];
  const notes: string[] = [];
  if (byPrompts) {
    notes.push('too few prompts have two rows: only what the texts share with their prompts is seen');
  } else if (!promptsKnown) {
    notes.push('not every row has its prompt’s text, one text a group: the bound is looser than it could be');
  }
  if (miBoundSaturated) {
    notes.push('mi_bound is at its ceiling ln P: a fall is seen late here, and specificity is the figure to watch');
  }
  return notes;
}
