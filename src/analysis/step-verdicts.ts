// One step file's rewards, actions and the rest, beside its metrics -> the filter's view of the step and the judge's verdicts.
import type { Engine } from '../engine/engine.js';
import type { Tensor } from '../engine/tensor.js';
import { ArgumentError } from '../errors.js';
import { type FilterResult, filterGroups } from '../filter/index.js';
import type { StepData } from '../logs/step-data.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { Judge, Judgement } from '../monitor/verdicts/index.js';

export interface StepVerdicts {
  readonly judgement: Judgement | undefined;
  readonly filter: FilterResult | undefined;
  /** Why one of them is missing, in words. */
  readonly notes: readonly string[];
}

/** A step file whose scores are fine is reported, whatever is wrong with what else it holds. */
export async function stepVerdicts(
  engine: Engine,
  data: StepData,
  metrics: StepMetrics | undefined,
  judge: Judge,
  signal: AbortSignal,
): Promise<StepVerdicts> {
  const notes: string[] = [];
  const attempt = <T>(what: string, work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      notes.push(`${what}: ${error.message}`);
      return undefined;
    }
  };
  const { rewards, group, episode, turn, actions, correct, valid } = data;
  const outcomes = correct ?? data.outcome;
  const filter =
    rewards &&
    attempt('no filter', () =>
      filterGroups(
        { rewards: { values: rewards, groups: group, episodes: episode, turns: turn }, outcomes },
        { nonFinite: 'exclude', turnRewards: 'last' },
      ),
    );
  const ablated = await ablatedSums(engine, data, signal);
  const swaps = data.actionLogprobs;
  const judgement = attempt('no verdicts', () =>
    judge.add({
      step: data.step,
      metrics,
      rows: {
        groups: group,
        rewards,
        outcomes,
        actions,
        valid,
        episodes: episode,
        turns: turn,
        ablated,
        reasoningSwaps: swaps && { logprobs: swaps.data, reasonings: swaps.shape[0] as number },
      },
      filter,
      success: correct && meanOf(correct),
    }),
  );
  return { judgement, filter, notes };
}

/** Sums over tokens of log p(z | x without state or image), one a row. */
async function ablatedSums(engine: Engine, data: StepData, signal: AbortSignal): Promise<Tensor['data'] | undefined> {
  const tensor = data.ablatedLogprobs;
  if (tensor === undefined) return undefined;
  const [rows, tokens] = tensor.shape as [number, number];
  const { sums } = await engine.sumTokens({ ...tensor, shape: [1, rows, tokens] }, data.lengths, { signal });
  return sums.data;
}

function meanOf(values: Uint8Array): number | undefined {
  if (values.length === 0) return undefined;
  return values.reduce((total, value) => total + (value ? 1 : 0), 0) / values.length;
}
