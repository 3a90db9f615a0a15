// engine.promptMatrices: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import type { NativeResults } from '../native.js';
import type { Tensor } from '../tensor/tensor.js';
import { type HostView, viewDenseFloat64 } from '../tensor/tensor-view.js';
import type { RowLabels, RowStats } from './row-stats.js';
import { statsArguments, sumsExtents } from './row-stats-arguments.js';
import { labelArguments } from './score-options.js';

/**
 * A step's rows by prompt, P columns. Figures of a prompt without rows are NaN.
 */
export interface PromptMatrices {
  /** [P] rows whose own column this is. */
  readonly rows: Int32Array;
  /** [P] mean over them of matchedSeq − marginalSeq: nats a response. */
  readonly mi: Float64Array;
  /** [P] its 95% batch interval (docs/reference/intervals.md); NaN if the prompt has fewer than two rows. */
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** [P] share of its rows whose best prompt is their own or an equivalent one. */
  readonly retrieval: Float64Array;
  /**
   * [P·P], row-major: in row i and column p the mean over the rows of prompt i of w_r(p), the posterior of the label
   * (docs/reference/intervals.md), as n/255; 0 in the row of a prompt without rows. Undefined without `matrices`.
   */
  readonly posterior: Uint8Array | undefined;
  /**
   * [P·P] float16 bit patterns: the mean over the rows of prompt i of S[r][p] − marginalSeq, nats a response, cut at
   * ±65504; −infinity if a row is impossible under p, NaN in the row of a prompt without rows.
   */
  readonly nats: Uint16Array | undefined;
}

/** Labels of the rows and columns of `stats`, and what of the step is wanted. */
export interface PromptMatricesOptions extends RowLabels, OperationOptions {
  /** False: only the figures of each prompt. Default true. */
  matrices?: boolean | undefined;
}

const PROMPT_OPTIONS: OptionTable<PromptMatricesOptions> = {
  matrices: is.flag,
  own: is.any,
  lengths: is.any,
  signatures: is.any,
  ...OPERATION,
};

/** In the order of native/node/jobs/prompt_matrices.cpp. */
function matricesFrom({ numbers, posterior, nats }: NativeResults['promptMatrices']): PromptMatrices {
  const prompts = numbers.length / 5;
  const part = (at: number): Float64Array => numbers.slice(at * prompts, (at + 1) * prompts);
  return {
    rows: Int32Array.from(part(0)),
    mi: part(1),
    low: part(2),
    high: part(3),
    retrieval: part(4),
    posterior,
    nats,
  };
}

/** Engine.promptMatrices() */
export async function promptMatrices(
  engine: EngineCore,
  sums: Tensor,
  stats: RowStats,
  options: PromptMatricesOptions,
): Promise<PromptMatrices> {
  engine.begin('promptMatrices', options, PROMPT_OPTIONS);
  const view = viewDenseFloat64(sums, 'sums') as HostView;
  const extents = sumsExtents(view, stats);
  const labels = labelArguments(options, 'options');
  const { matrices = true } = options;
  return engine.jobs.run<NativeResults['promptMatrices'], PromptMatrices>(
    'promptMatrices',
    options,
    (settle, held) =>
      engine.native.promptMatrices(
        settle,
        view.data,
        held.protect(view.data, 'sums'),
        ...statsArguments(stats, extents, held),
        ...labels,
        matrices,
      ),
    matricesFrom,
  );
}
