// Measures one step's cross-scores under both profiles, as docs/reference/metrics.md says.
import { checkEngine } from '../checks/argument-checks.js';
import type { RowEnvironments } from '../checks/row-environments.js';
import type { Engine } from '../engine/engine.js';
import type { CrossScores, MetricOptions } from './cross-scores.js';
import { loggedEnvironments } from './environments/environment-figures.js';
import { blocksNote } from './environments/prompt-blocks.js';
import { chainRule, environmentsOf, type MeasuredWhole, scoreEnvironments } from './environments/score-environments.js';
import { equalColumns, mergedSignatures } from './figures/equal-columns.js';
import { type CheckedScores, checkMetricArguments, checkScores } from './metric-arguments.js';
import { metricsReporter } from './reporting/metrics-reporter.js';
import { withAverages } from './reporting/moving-averages.js';
import { eachPromptOnce, eachRowOnce, type RowSelection, selectRows, withoutRows } from './sampling/row-selection.js';
import { NONE_LEFT_OUT, noRowLeft, type RowsLeftOut } from './sampling/rows-left-out.js';
import { samplerOptions } from './sampling/samplers.js';
import { measure, type ScoredStep, summed } from './scored-step.js';
import { inSlices } from './slices.js';
import type { StepMetrics } from './step-metrics.js';

/**
 * Collapse metrics of one training step.
 *
 * @param scores cross-scores in nats, as token log-probs or as sums over tokens, with the ids of rows and columns
 *   apart.
 * @returns metrics by key; under `strict` with intervals, p-values, and the reason for every metric that cannot be
 *   given.
 * @throws {ArgumentError} (as a rejection) for arguments that contradict each other; `signal.reason` when aborted.
 * Source: RAGEN-2 (arXiv 2604.06268), Eq. 1 and §3; docs/reference/metrics.md lists every key with its formula.
 * @example
 * import { crossScoreMetrics, openEngine } from 'collapsar';
 *
 * await using engine = await openEngine();
 * const logprobs = { data, dtype: 'float32', shape: [P, R, T] } as const; // prompt after prompt, nats
 * const { values, certainty } = await crossScoreMetrics(engine, { logprobs, lengths, groups });
 * console.log(values['mi_seq_estimate'], certainty['mi_seq_estimate']?.batch);
 */
export async function crossScoreMetrics(
  engine: Engine,
  scores: CrossScores,
  options: MetricOptions = {},
): Promise<StepMetrics> {
  checkEngine(engine, 'engine');
  checkMetricArguments(scores, options);
  return metricsOfScores(engine, checkScores(scores, options), options);
}

/** The same of scores and options that were checked. */
export async function metricsOfScores(
  engine: Engine,
  scores: CheckedScores,
  options: MetricOptions,
): Promise<StepMetrics> {
  const metrics = isMixed(scores, options)
    ? await measureMixed(engine, scores, options)
    : (await measureScores(engine, scores, options)).metrics;
  return options.state === undefined ? metrics : withAverages(metrics, options.state, options.step);
}

type MixedScores = CheckedScores & { readonly environments: RowEnvironments };

/** Whether environments are distinguished; a sampler's draws are weighted differently and are left as they are. */
function isMixed(scores: CheckedScores, options: MetricOptions): scores is MixedScores {
  return scores.environments !== undefined && isWhole(options);
}

function isWhole({ profile, sampler }: MetricOptions): boolean {
  return profile !== 'ragen' && (sampler === undefined || samplerOptions(sampler).kind === 'first_turn');
}

async function measureMixed(engine: Engine, scores: MixedScores, options: MetricOptions): Promise<StepMetrics> {
  const { signal, onProgress } = options;
  const { given, lengths, environments } = scores;
  // Measured several times, in parts: tokens are added up once.
  const whole: MixedScores =
    given.kind === 'sums' || environments.names.length < 2
      ? scores
      : {
          ...scores,
          given: { kind: 'sums', tensor: (await engine.sumTokens(given.tensor, lengths, { signal, onProgress })).sums },
        };
  const measured = await measureScores(engine, whole, options);
  const { metrics } = measured;
  const found = await scoreEnvironments(
    engine,
    measured,
    whole,
    options,
    async (...part) => (await measureScores(...part)).metrics,
  );
  const logged = { ...metrics.logged, ...loggedEnvironments(found) };
  return { ...metrics, environments: found, logged };
}

/** All but the moving averages, which are those of a run's first step. */
async function measureScores(engine: Engine, scores: CheckedScores, options: MetricOptions): Promise<MeasuredWhole> {
  const { profile = 'strict', signal } = options;
  const { given, shape, lengths, columns, hasPromptTokens, trajectories, environments, isPart = false } = scores;
  const hasReasoning = (row: number): boolean => (lengths[row] as number | bigint) > 0;
  const sampler = options.sampler === undefined ? undefined : samplerOptions(options.sampler);
  let selection = selectRows(columns, hasReasoning, profile, sampler, trajectories);
  const report = metricsReporter(profile, { ...options, sampler }, shape, lengths);

  const nothing = (reason: string, leftOut?: RowsLeftOut): MeasuredWhole => {
    return { metrics: report.nothing(selection, reason, leftOut), signatures: columns.signatures };
  };
  if (selection.rows.length === 0) {
    const lost = selection.valid > 0; // only under ragen
    return nothing(lost ? 'every draw fell on a trajectory without reasoning tokens' : 'no row has reasoning tokens');
  }
  if (selection.prompts < 2) {
    return nothing(tooFewPrompts(selection.prompts, shape.columns));
  }

  const { sums, order, measured: first } = await summed(engine, given, lengths, columns, selection, options);
  let measured = first ?? (await measure(engine, sums, order, lengths, selection, signal));
  let leftOut: RowsLeftOut = NONE_LEFT_OUT;
  const notes: string[] = [];
  if (profile === 'strict') {
    const { matchedSeq, marginalSeq, rankEqual, columns: columnCount } = measured.stats;
    const { distinct } = measured;
    const isNonFinite = (at: number): boolean => !(Number.isFinite(matchedSeq[at]) && Number.isFinite(marginalSeq[at]));
    const isPlaceholder = (at: number): boolean => rankEqual[at] === columnCount && distinct > 1 && !isNonFinite(at);
    leftOut = {
      nonFinite: rowsThatAre(isNonFinite, selection.rows),
      placeholders: isPart ? [] : rowsThatAre(isPlaceholder, selection.rows),
    };
    if (leftOut.nonFinite.length + leftOut.placeholders.length > 0) {
      selection = withoutRows(selection, (at) => isNonFinite(at) || (!isPart && isPlaceholder(at)));
      if (selection.rows.length === 0) return nothing(noRowLeft(leftOut), leftOut);
      measured = await measure(engine, sums, order, lengths, selection, signal);
    }
    if (!hasPromptTokens) {
      const found = await inSlices(equalColumns(measured.sums.data as Float64Array, columnCount), signal);
      const signatures = mergedSignatures(selection.signatures, found);
      // A sampler names a column more than once: what is one prompt by its name needs no note.
      if (new Set(signatures).size < new Set(selection.signatures).size) {
        const named = (column: number) => columns.order[selection.columns[column] as number] as number;
        notes.push(...found.map((equal) => equalNote([...new Set(equal.map(named))])));
        selection = { ...selection, signatures };
        measured = await measure(engine, sums, order, lengths, selection, signal);
      }
    }
  }
  const promptsOnce = profile === 'strict' ? eachPromptOnce(selection) : selection;
  const rowsOnce = profile === 'strict' ? eachRowOnce(promptsOnce) : selection;
  const scored = async (some: RowSelection, same: RowSelection, known: ScoredStep): Promise<ScoredStep> =>
    some === same ? known : measure(engine, sums, order, lengths, some, signal);
  const retrieval = await scored(promptsOnce, selection, measured);
  const drawn = await scored(rowsOnce, promptsOnce, retrieval);
  const prompts = promptsOnce.columns.map((column) => columns.order[column] as number);
  const isChained = environments !== undefined && environments.names.length > 1 && profile === 'strict';
  const chained = isChained
    ? await chainRule(engine, measured, environmentsOf(environments, selection, columns), signal)
    : {};
  const scoredSample = { measured, retrieval, drawn, prompts };
  const metrics = await report.everything(engine, scoredSample, selection, leftOut, notes, chained);
  const signatures = columns.signatures.slice();
  selection.columns.forEach((column, at) => {
    signatures[column] = selection.signatures[at] as number;
  });
  const isUnnamed = environments === undefined && !isPart && isWhole(options);
  const note = isUnnamed ? await blocksNote(engine, drawn, metrics, signal) : undefined;
  return { metrics: note === undefined ? metrics : { ...metrics, notes: [...metrics.notes, note] }, signatures };
}

function equalNote(equal: readonly number[]): string {
  const shown = equal.length > 8 ? [...equal.slice(0, 8), '…'] : equal;
  const names = `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
  return `columns ${names} have the same scores in every row: counted once, as one prompt (promptTokens would tell)`;
}

/** A sample, and `ragen`, know only the prompts of their rows: the step may have more. */
function tooFewPrompts(measured: number, columns: number): string {
  const there =
    measured === columns
      ? `this step has ${columns}`
      : `of the ${columns} of this step, the rows that are measured cover ${measured}`;
  return `MI and retrieval need at least 2 prompts; ${there}`;
}

/** The rows of those at which `bad` is true, ascending, once each. */
function rowsThatAre(bad: (at: number) => boolean, rows: Int32Array): number[] {
  const found = new Set<number>();
  for (let at = 0; at < rows.length; at++) if (bad(at)) found.add(rows[at] as number);
  return [...found].sort((a, b) => a - b);
}
