// Collects a step's results into StepMetrics: values and intervals by key, notes, and reasons for absent figures.
import type { Engine } from '../../engine/engine.js';
import type { StepInference } from '../../engine/operations/infer-step.js';
import type { MetricOptions } from '../cross-scores.js';
import { certaintyByKey, flattenCertainty } from '../figures/certainty.js';
import { stepFigures, strictKeys } from '../figures/step-figures.js';
import { subsetFigures } from '../figures/subset-figures.js';
import type { MeasuredStep } from '../measured-step.js';
import type { Lengths, ScoresShape } from '../metric-arguments.js';
import type { RowSelection } from '../sampling/row-selection.js';
import { NONE_LEFT_OUT, type RowsLeftOut } from '../sampling/rows-left-out.js';
import type { SamplerOptions } from '../sampling/samplers.js';
import type { ScoredStep } from '../scored-step.js';
import type { Certainty, PerPrompt, PerRow, SampleLabel, StepMetrics, StepSpread } from '../step-metrics.js';
import { loggedKey, namesOf } from './logged-names.js';

/** Permutations behind a p-value unless the caller says otherwise: the smallest p is then 0.001. */
const PERMUTATIONS = 999;

/** A sample: as it was drawn; among each of its prompts once; and each of its rows once, too. Mostly these are one. */
interface ScoredSample {
  readonly measured: ScoredStep;
  /** What retrieval is asked of. */
  readonly retrieval: ScoredStep;
  /** What intervals and p-values are of: a row that is drawn again adds nothing new. */
  readonly drawn: ScoredStep;
  /** Column of the scores that each column of `drawn` is. */
  readonly prompts: Int32Array;
}

interface ReportOptions extends Omit<MetricOptions, 'sampler'> {
  readonly sampler: SamplerOptions | undefined;
}

/** Puts what was found into a StepMetrics. */
export function metricsReporter(
  profile: 'strict' | 'ragen',
  options: ReportOptions,
  shape: ScoresShape,
  lengths: Lengths,
) {
  const { permutations = PERMUTATIONS, seed = 0, signal } = options;
  const label: SampleLabel = options.label ?? `collapse_${options.sampler?.kind ?? 'first_turn'}_sample`;
  const zeroLength = zerosIn(lengths);

  /** Metrics about the rows themselves, which are outside the sample's prefix (docs/reference/metrics.md). */
  function aboutRows(selection: RowSelection): Record<string, number> {
    const about: Record<string, number> = {};
    // The reference gives this one only if it has all turns of the trajectories.
    if (profile === 'strict' || (options.sampler && options.sampler.kind !== 'first_turn')) {
      if (shape.rows > 0) about['collapse/valid_thinking_rate'] = (shape.rows - zeroLength) / shape.rows;
    }
    if (label === 'collapse_first_turn_sample') {
      about['collapse/first_turn_num_total'] = selection.total;
      about['collapse/first_turn_num_valid'] = selection.valid;
      about['collapse/first_turn_valid_rate'] = selection.total > 0 ? selection.valid / selection.total : 0;
    }
    return about;
  }

  function aboutSample(selection: RowSelection): Record<string, number> {
    if (profile === 'ragen' || options.sampler === undefined) return {};
    return {
      sample_size: selection.rows.length,
      sample_effective_size: selection.effectiveRows,
      sample_prompts: selection.prompts,
    };
  }

  function build(
    selection: RowSelection,
    { nonFinite, placeholders }: RowsLeftOut,
    values: Record<string, number>,
    absent: Record<string, string>,
    certainty: Record<string, Certainty>,
    notes: string[],
    measured?: { step: MeasuredStep; spread: StepSpread; perPrompt?: PerPrompt | undefined },
  ): StepMetrics {
    const names = namesOf(label);
    const about = aboutRows(selection);
    const keys = Object.keys(about);
    const figures = Object.values(about);
    for (const some of [values, flattenCertainty(certainty)]) {
      for (const key of Object.keys(some)) {
        keys.push(loggedKey(names, key));
        figures.push(some[key] as number);
      }
    }
    return {
      profile,
      label,
      values: names.values.fill(Object.keys(values), Object.values(values)),
      absent,
      certainty,
      notes,
      ...(options.perRow === true && measured !== undefined ? { perRow: perRowOf(measured.step, selection) } : {}),
      ...(measured?.perPrompt && { perPrompt: measured.perPrompt }),
      rows: {
        total: shape.rows,
        used: selection.rows.length,
        zeroLength,
        nonFinite,
        ...(placeholders.length > 0 && { placeholders }),
      },
      columns: { total: selection.columns.length, distinct: new Set(selection.signatures).size },
      ...(measured && { spread: measured.spread }),
      logged: names.logged.fill(keys, figures),
    };
  }

  return {
    nothing(selection: RowSelection, reason: string, leftOut = NONE_LEFT_OUT): StepMetrics {
      const distinct = new Set(selection.signatures).size;
      const keys = profile === 'strict' ? strictKeys(distinct) : [];
      return build(selection, leftOut, {}, Object.fromEntries(keys.map((key) => [key, reason])), {}, [reason]);
    },

    async everything(
      engine: Engine,
      scored: ScoredSample,
      selection: RowSelection,
      leftOut: RowsLeftOut,
      aboutColumns: readonly string[],
      more: Readonly<Record<string, number>> = {},
    ): Promise<StepMetrics> {
      if (profile === 'ragen') {
        const measured = await withMoments(engine, scored.measured);
        const { values, spread } = stepFigures(profile, measured, measured);
        return build(selection, leftOut, values, {}, {}, [], { step: measured, spread });
      }
      const infer = ({ sums, stats, own, lengths, signatures }: ScoredStep, permutations: number) =>
        engine.inferStep(sums, stats, { own, lengths, signatures, permutations, seed, signal });
      // None needs another: asked for together, the engine's threads are woken once.
      const [measured, apart, inference, rowsAsDrawn, perPrompt] = await Promise.all([
        withMoments(engine, scored.measured),
        scored.retrieval === scored.measured ? undefined : withMoments(engine, scored.retrieval),
        infer(scored.drawn, permutations),
        scored.drawn === scored.retrieval ? undefined : infer(scored.retrieval, 0),
        options.perPrompt === true ? perPromptOf(engine, scored, signal) : undefined,
      ]);
      const { values, absent, notes, spread } = stepFigures(profile, measured, apart ?? measured);
      notes.push(...aboutColumns, ...caveats(inference, leftOut));
      const widening = Math.sqrt(scored.drawn.own.length / selection.effectiveRows);
      const certainty = certaintyByKey(inference, values, permutations, {
        promptsRepeat: scored.retrieval !== scored.measured,
        rowsRepeat: rowsAsDrawn !== undefined,
        widening,
      });
      const subsets = subsetFigures(rowsAsDrawn ?? inference, inference, rowsAsDrawn === undefined ? 1 : widening);
      Object.assign(values, subsets.values);
      Object.assign(absent, subsets.absent);
      Object.assign(certainty, subsets.certainty);
      for (const [key, overPrompts] of Object.entries(subsets.overPrompts)) {
        certainty[key] = { ...(certainty[key] as Certainty), overPrompts };
      }
      notes.push(...subsets.notes);
      Object.assign(values, aboutSample(selection), more);
      return build(selection, leftOut, values, absent, certainty, notes, { step: measured, spread, perPrompt });
    },
  };
}

/** What to know of the intervals before trusting them. */
function caveats({ withinVariance, calibrated }: StepInference, { nonFinite, placeholders }: RowsLeftOut): string[] {
  const notes: string[] = [];
  if (nonFinite.length > 0) {
    notes.push(`rows left out for a score that is NaN or infinite: ${nonFinite.length} (row ${list(nonFinite)})`);
  }
  if (placeholders.length > 0) {
    notes.push(
      'rows left out for having the same score under every prompt, which no log-probs have (placeholders?): ' +
        `${placeholders.length} (row ${list(placeholders)})`,
    );
  }
  if (!withinVariance) {
    notes.push(
      'some prompt has one row only: batch intervals take the spread between prompts for noise and are too wide',
    );
  }
  if (!calibrated) {
    notes.push(
      'the responses do not look sampled from the scored distribution (labels of other rows, another temperature, a mask, ' +
        'rows picked by reward?): intervals rest on the spread of the rows alone and may be too narrow with few rows a prompt',
    );
  }
  return notes;
}

async function withMoments(engine: Engine, step: ScoredStep): Promise<MeasuredStep> {
  const { stats, own, lengths, signatures } = step;
  return { ...step, moments: await engine.stepMoments(stats, { own, lengths, signatures }) };
}

/** Matrices of more prompts are more than anyone looks at, and than a step's record should hold. */
const MOST_IN_MATRIX = 1024;

async function perPromptOf(
  engine: Engine,
  { drawn, prompts }: ScoredSample,
  signal: AbortSignal | undefined,
): Promise<PerPrompt> {
  const { sums, stats, own, lengths, signatures } = drawn;
  const matrices = prompts.length <= MOST_IN_MATRIX;
  const found = await engine.promptMatrices(sums, stats, { own, lengths, signatures, matrices, signal });
  return { column: prompts, ...found };
}

function zerosIn(lengths: Lengths): number {
  let zeros = 0;
  for (let row = 0; row < lengths.length; row++) if (Number(lengths[row]) === 0) zeros++;
  return zeros;
}

function perRowOf({ stats, own, signatures }: MeasuredStep, { rows }: RowSelection): PerRow {
  const { argmax } = stats;
  const retrieved = new Uint8Array(argmax.length);
  for (let row = 0; row < retrieved.length; row++) {
    if (signatures[argmax[row] as number] === signatures[own[row] as number]) retrieved[row] = 1;
  }
  return { row: rows.slice(), matched: stats.matchedSeq.slice(), retrieved };
}

function list(rows: readonly number[]): string {
  const shown = rows.slice(0, 8).join(', ');
  return rows.length > 8 ? `${shown}, …` : shown;
}
