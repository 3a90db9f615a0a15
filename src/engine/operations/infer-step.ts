// engine.inferStep: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import type { NativeResults } from '../native.js';
import type { Tensor } from '../tensor/tensor.js';
import { type HostView, viewDenseFloat64 } from '../tensor/tensor-view.js';
import type { RowLabels, RowStats } from './row-stats.js';
import { statsArguments, sumsExtents } from './row-stats-arguments.js';
import { labelArguments } from './score-options.js';

/** The figures of one step that get an interval and a p-value, in the order of native/node/jobs/infer_step.cpp. */
export const ENGINE_FIGURES = [
  'miSeq',
  'miSeqLoo',
  'miPerToken',
  'miToken',
  'retrieval1',
  'retrieval2',
  'retrieval4',
  'retrieval8',
] as const;
export type Figure = (typeof ENGINE_FIGURES)[number];

/** 95%; a bound that cannot be given is NaN. */
export interface FigureInference {
  estimate: number;
  batchLow: number;
  batchHigh: number;
  batchError: number;
  populationLow: number;
  populationHigh: number;
  populationError: number;
  pValue: number;
}

/** The value for these very prompts, with its 95% interval; a bound that cannot be given is NaN. */
export interface SubsetInference {
  estimate: number;
  batchLow: number;
  batchHigh: number;
  batchError: number;
}

/**
 * A figure over different prompts, each counted once (of information among two: each pair of them), with its standard
 * error over prompts by the jackknife. NaN under three prompts.
 */
export interface OverPrompts {
  readonly estimate: number;
  readonly error: number;
}

/** Information among a number of distinct prompts. */
export interface AmongInference extends SubsetInference {
  prompts: number;
  overPrompts: OverPrompts;
}

/** Intervals and p-values of one step’s figures. */
export interface StepInference {
  rows: number;
  figures: Record<Figure, FigureInference>;
  /**
   * For `prompts` = 2, 4, 8, … up to the distinct ones: the mean over rows of S under the own prompt − ln of the mean
   * of exp S over it and others drawn without replacement, nats. Exact for 2 and for all; between, draws that `seed`
   * decides.
   */
  among: readonly AmongInference[];
  /** The information among all distinct prompts, nats. */
  overPrompts: OverPrompts;
  /**
   * Mean over rows of S under the own prompt − mean of S under the other distinct ones, nats. `rows`: those that no
   * other prompt gives −infinity, which are left out; NaN if none is.
   */
  margin: SubsetInference & { rows: number };
  /** False: some batch interval rests on between-prompt variance (K = 1) and is conservative. */
  withinVariance: boolean;
  /**
   * False: rows cannot have been sampled from what the scores describe (labels of other rows, another temperature, a
   * mask, rows picked by reward).
   */
  calibrated: boolean;
}

/** Options of `engine.inferStep`. */
export interface InferenceOptions extends RowLabels, OperationOptions {
  /** Label permutations for the p-values; 0 for none. */
  permutations: number;
  seed: number;
}

const INFERENCE_OPTIONS: OptionTable<InferenceOptions> = {
  permutations: is.needed(is.integer(0)),
  seed: is.needed(is.integer(0)),
  own: is.any,
  lengths: is.any,
  signatures: is.any,
  ...OPERATION,
};

// Native code gives its numbers in one array: creating each property at every step took as long as computing them.
/** In the order of native/node/jobs/infer_step.cpp. */
export function inferenceFrom(numbers: Float64Array): StepInference {
  let at = 0;
  const next = (): number => numbers[at++] as number;
  const figure = (): FigureInference => ({
    estimate: next(),
    batchLow: next(),
    batchHigh: next(),
    batchError: next(),
    populationLow: next(),
    populationHigh: next(),
    populationError: next(),
    pValue: next(),
  });
  const figures = Object.fromEntries(ENGINE_FIGURES.map((name) => [name, figure()])) as Record<Figure, FigureInference>;
  const withinVariance = next() === 1;
  const calibrated = next() === 1;
  const subset = (): SubsetInference => ({
    estimate: next(),
    batchLow: next(),
    batchHigh: next(),
    batchError: next(),
  });
  const rows = next();
  const margin = { ...subset(), rows: next() };
  const ofPrompts = (): OverPrompts => ({ estimate: next(), error: next() });
  const overPrompts = ofPrompts();
  const among: AmongInference[] = [];
  for (let prompts = 2; at < numbers.length; prompts *= 2) {
    among.push({ prompts, ...subset(), overPrompts: ofPrompts() });
  }
  return { rows, figures, among, overPrompts, margin, withinVariance, calibrated };
}

/** Engine.inferStep() */
export async function inferStep(
  engine: EngineCore,
  sums: Tensor,
  stats: RowStats,
  options: InferenceOptions,
): Promise<StepInference> {
  engine.begin('inferStep', options, INFERENCE_OPTIONS);
  const view = viewDenseFloat64(sums, 'sums') as HostView;
  const extents = sumsExtents(view, stats);
  const labels = labelArguments(options, 'options');
  const { permutations, seed } = options;
  return engine.jobs.run<NativeResults['inferStep'], StepInference>(
    'inferStep',
    options,
    (settle, held) =>
      engine.native.inferStep(
        settle,
        view.data,
        held.protect(view.data, 'sums'),
        ...statsArguments(stats, extents, held),
        ...labels,
        permutations,
        seed,
      ),
    inferenceFrom,
  );
}
