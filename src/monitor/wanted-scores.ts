// Lists the (row, prompt) pairs that a due step needs scored, drawn by its samplers (docs/reference/metrics.md), so
// that a trainer scores only what a metric reads.
import { ArgumentError } from '../checks/errors.js';
import type { Lengths } from '../metrics/metric-arguments.js';
import type { Pairs, PromptPairs } from '../metrics/sampled/plan.js';
import { drawPlan, HARD_SHARE_DEFAULT, type ScorePlan } from '../metrics/sampled/plan.js';
import { canonicalTurns, turnsByRows } from '../metrics/sampled/prompt-turns.js';
import { type RowSelection, selectRows } from '../metrics/sampling/row-selection.js';
import type { SamplerOptions } from '../metrics/sampling/samplers.js';
import type { Profile } from '../metrics/step-metrics.js';
import type { OpenLabels } from './outcomes/step-labels.js';

/** The pairs, prompt by prompt: all rows of one prompt are adjacent, as a scorer with a prompt cache wants them. */
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
  /** By prompt: a bit for each sampler that wants it. */
  const wanting = new Uint32Array(labels.prompts);
  const drawn: Int32Array[] = [];
  for (const [at, sampler] of (samplers.length === 0 ? [undefined] : samplers).entries()) {
    const { rows, columns, prompts } = select(labels, profile, sampler);
    drawn.push(rows);
    // Without two prompts to tell apart nothing can be computed (docs/reference/metrics.md).
    if (prompts < 2) continue;
    for (const column of columns) {
      const prompt = labels.columns.order[column] as number;
      wanting[prompt] = (wanting[prompt] as number) | (1 << at);
    }
  }
  return inOrder(wanting, drawn, labels.rows);
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

/**
 * Rows are put together once for prompts that the same samplers want: of all rows under all prompts there may be many
 * millions.
 * @param wanting by prompt, which of the samplers want it; a prompt that none does is left out
 * @param drawn rows of each sampler
 */
function inOrder(wanting: Uint32Array, drawn: readonly Int32Array[], rowCount: number): WantedPairs {
  const known = new Map<number, Int32Array>();
  const rowsFor = (samplers: number): Int32Array => {
    let rows = known.get(samplers);
    if (rows === undefined) {
      rows = together(
        drawn.filter((_, at) => (samplers & (1 << at)) !== 0),
        rowCount,
      );
      known.set(samplers, rows);
    }
    return rows;
  };
  let total = 0;
  for (const samplers of wanting) if (samplers !== 0) total += rowsFor(samplers).length;
  const pairs = { rows: new Int32Array(total), prompts: new Int32Array(total) };
  const byPrompt: PromptPairs[] = [];
  let first = 0;
  for (const [prompt, samplers] of wanting.entries()) {
    const rows = samplers === 0 ? undefined : rowsFor(samplers).slice();
    if (rows === undefined || rows.length === 0) continue;
    pairs.rows.set(rows, first);
    pairs.prompts.fill(prompt, first, first + rows.length);
    byPrompt.push({ prompt, rows, first });
    first += rows.length;
  }
  return { ...pairs, byPrompt };
}

/** All of the rows, each once, ascending. */
function together(some: readonly Int32Array[], rowCount: number): Int32Array {
  const isThere = new Uint8Array(rowCount);
  for (const rows of some) for (const row of rows) isThere[row] = 1;
  let count = 0;
  for (const there of isThere) count += there;
  const found = new Int32Array(count);
  let next = 0;
  for (let row = 0; row < rowCount; row++) if (isThere[row] === 1) found[next++] = row;
  return found;
}

/**
 * Which pairs a step with `negatives` wants scored (docs/guide/cheaper-scoring.md).
 * @throws {ArgumentError} if the negatives cannot be drawn as asked for
 */
export function planStep(labels: OpenLabels, negatives: number, hardShare: number | null, seed: number): ScorePlan {
  const { columns, turns } = labels;
  const lengths = Float64Array.from<number | bigint>(labels.lengths as Lengths, Number);
  if (hardShare === null) {
    return drawPlan({ columns, lengths, turns: undefined }, { negatives, seed, hardShare: HARD_SHARE_DEFAULT });
  }
  if (turns === undefined) {
    throw new ArgumentError(
      'turns',
      'missing: options.hardShare draws negatives of the row’s own turn; give the turn of each row',
    );
  }
  // planScores takes the turns of prompts as an option, a monitor does not.
  const advice = 'a monitor knows turns by their rows alone: construct it without `hardShare`';
  const ofPrompts = canonicalTurns(turnsByRows(columns, turns, advice), columns.order);
  return drawPlan({ columns, lengths, turns: ofPrompts }, { negatives, seed, hardShare });
}
