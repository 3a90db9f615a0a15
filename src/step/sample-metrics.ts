// Measures every sample of a step's cross-scores (docs/reference/metrics.md).
import type { Engine } from '../engine/engine.js';
import { metricsOfScores } from '../metrics/cross-score-metrics.js';
import type { Profile, StepMetrics } from '../metrics/step-metrics.js';
import type { ScoredRows } from './step-input.js';

/** Metrics and what they rest on, row by row and prompt by prompt, which is not kept. */
export interface MeasuredSamples {
  /** By sampler. */
  readonly samples: readonly StepMetrics[];
  /** [R] log p(z|x), where the metrics do not bring it along row by row. */
  readonly matched?: Float64Array | undefined;
}

export interface SampleOptions {
  readonly profile: Profile;
  readonly permutations?: number | undefined;
  readonly seed: number;
  readonly perRow: boolean;
  /** Only of the first sampler. */
  readonly perPrompt: boolean;
  readonly signal: AbortSignal | undefined;
}

export async function sampleMetrics(
  engine: Engine,
  { scores, samplers, plan }: ScoredRows,
  step: number,
  { profile, permutations, seed, perRow, perPrompt, signal }: SampleOptions,
): Promise<MeasuredSamples> {
  const common = { profile, permutations, seed, perRow, step, signal };
  if (plan !== undefined) {
    // Few trainers score samples of the pairs: what that takes is loaded by those that do.
    const { sampledMatched, sampledMetrics } = await import('./sampled-metrics.js');
    const metrics = await sampledMetrics(engine, plan, scores, common);
    return { samples: [metrics], matched: perRow ? sampledMatched(plan, scores, metrics) : undefined };
  }
  const samples: StepMetrics[] = [];
  for (const [at, sampler] of (samplers.length === 0 ? [undefined] : samplers).entries()) {
    samples.push(await metricsOfScores(engine, scores, { ...common, perPrompt: perPrompt && at === 0, sampler }));
  }
  return { samples };
}
