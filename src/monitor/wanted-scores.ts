// Which (row, prompt) pairs a due step needs scored: the rows and prompts that its samplers draw (docs/metrics.md), so that a
// trainer scores nothing that no metric will read.
import { ArgumentError } from '../errors.js';
import type { Pairs, PromptPairs } from '../metrics/planned/plan.js';
import { type RowSelection, selectRows } from '../metrics/row-selection.js';
import type { SamplerOptions } from '../metrics/samplers.js';
import type { Profile } from '../metrics/step-metrics.js';
import type { OpenLabels } from './step-labels.js';

/** The pairs, prompt by prompt: all rows of one prompt stand together, as a scorer with a prompt cache wants them. */
export interface WantedPairs extends Pairs {
  /** By rising prompt; prompts without a wanted pair are left out. */
  readonly byPrompt: readonly PromptPairs[];
}

/** The sampler of one step: another draw each step, the same one whenever this step is opened again. */
export function samplerOfStep(sampler: SamplerOptions, step: number): SamplerOptions {
  return { ...sampler, seed: seedOfStep(sampler.seed ?? 0, step) };
}

export function seedOfStep(seed: number, step: number): number {
  return (seed + step) % Number.MAX_SAFE_INTEGER;
}

/**
 * @param samplers as samplerOfStep() gives them; empty: all rows under all prompts
 * @throws {ArgumentError} if a sampler needs trajectories that were not given
 */
export function wantedPairs(labels: OpenLabels, profile: Profile, samplers: readonly SamplerOptions[]): WantedPairs {
  const rowsOf = new Map<number, Set<number>>();
  for (const sampler of samplers.length === 0 ? [undefined] : samplers) {
    const { rows, columns, prompts } = select(labels, profile, sampler);
    // Without two prompts to tell apart nothing can be computed (docs/metrics.md).
    if (prompts < 2) continue;
    for (const column of columns) {
      const prompt = labels.columns.order[column] as number;
      const wanted = rowsOf.get(prompt) ?? new Set();
      for (const row of rows) wanted.add(row);
      rowsOf.set(prompt, wanted);
    }
  }
  return inOrder(rowsOf);
}

function select(labels: OpenLabels, profile: Profile, sampler: SamplerOptions | undefined): RowSelection {
  const { lengths, episodes, turns } = labels;
  const hasReasoning = (row: number): boolean => Number(lengths?.[row] ?? 0) > 0;
  if (sampler !== undefined && (episodes === undefined || turns === undefined)) {
    const missing = episodes === undefined ? 'episodes' : 'turns';
    throw new ArgumentError(
      missing,
      `missing: the sampler "${sampler.kind}" draws from trajectories; give episodes and turns`,
    );
  }
  const trajectories = episodes && turns ? { episodes, turns } : undefined;
  return selectRows(labels.columns, hasReasoning, profile, sampler, trajectories);
}

/** @param rowsOf rows of each prompt; a prompt without rows is left out */
function inOrder(rowsOf: ReadonlyMap<number, ReadonlySet<number>>): WantedPairs {
  const prompts = [...rowsOf.keys()].filter((prompt) => rowsOf.get(prompt)?.size).sort((a, b) => a - b);
  const sorted = prompts.map((prompt) => Int32Array.from(rowsOf.get(prompt) ?? []).sort());
  const total = sorted.reduce((count, rows) => count + rows.length, 0);
  const pairs = { rows: new Int32Array(total), prompts: new Int32Array(total) };
  let first = 0;
  const byPrompt = prompts.map((prompt, at): PromptPairs => {
    const rows = sorted[at] as Int32Array;
    pairs.rows.set(rows, first);
    pairs.prompts.fill(prompt, first, first + rows.length);
    const own = { prompt, rows, first };
    first += rows.length;
    return own;
  });
  return { ...pairs, byPrompt };
}
