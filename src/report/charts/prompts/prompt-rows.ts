// Reads from the table of prompts those of one step, and what is drawn over all steps.
import type { PromptTable, RunData } from '../../report.js';

export type PromptLayer = 'rewardStd' | 'rewardMean' | 'mi' | 'kept';

export interface PromptOfStep {
  readonly id: string;
  readonly rows: number;
  readonly mi: number;
  readonly miLow: number;
  readonly miHigh: number;
  readonly rewardMean: number;
  readonly rewardStd: number;
  readonly retrieval: number;
  readonly kept: boolean | undefined;
  readonly reason: string;
  readonly cause: string;
}

/** Places of the rows of each step. */
export function stepsOf({ step }: PromptTable): Map<number, number[]> {
  const steps = new Map<number, number[]>();
  for (const [at, value] of step.entries()) {
    const rows = steps.get(value);
    if (rows === undefined) steps.set(value, [at]);
    else rows.push(at);
  }
  return steps;
}

/** Of the nearest step that has prompts; the most specific first. */
export function promptsAt({ prompts }: RunData, step: number): { step: number; prompts: PromptOfStep[] } | undefined {
  if (prompts === undefined) return undefined;
  const steps = stepsOf(prompts);
  const nearest = [...steps.keys()].reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best));
  const rows = (steps.get(nearest) as number[]).map((at): PromptOfStep => {
    const kept = prompts.kept[at];
    return {
      id: prompts.ids[prompts.prompt[at] as number] ?? '',
      rows: prompts.rows[at] as number,
      mi: prompts.mi[at] as number,
      miLow: prompts.miLow[at] as number,
      miHigh: prompts.miHigh[at] as number,
      rewardMean: prompts.rewardMean[at] as number,
      rewardStd: prompts.rewardStd[at] as number,
      retrieval: prompts.retrieval[at] as number,
      kept: kept === 2 ? undefined : kept === 1,
      reason: prompts.reasons[prompts.reason[at] as number] ?? '',
      cause: prompts.causes[prompts.cause[at] as number] ?? '',
    };
  });
  const known = (value: number): number => (Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value);
  return { step: nearest, prompts: rows.sort((a, b) => known(b.mi) - known(a.mi)) };
}

/** Whether rows of a step can stand for prompts: their ids recur in half of the steps or more. */
export function idsRecur(table: PromptTable): boolean {
  const steps = stepsOf(table);
  const seen = new Uint32Array(table.ids.length);
  for (const prompt of table.prompt) (seen[prompt] as number)++;
  return seen.length > 0 && seen.every((count) => count >= steps.size / 2);
}

export const hasLayer = (table: PromptTable, layer: PromptLayer): boolean =>
  layer === 'kept' ? table.kept.some((code) => code !== 2) : table[layer].some((value) => !Number.isNaN(value));
