// Cross-scores of one step -> the metrics of every sample of its rows (docs/reference/metrics.md).
import type { Engine } from '../engine/engine.js';
import { metricsOfScores } from '../metrics/cross-score-metrics.js';
import type { Profile, StepMetrics } from '../metrics/step-metrics.js';
import { sampledMatched, sampledMetrics } from './sampled-metrics.js';
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
  /** Of the first sampler alone. */
  readonly perPrompt: boolean;
  readonly signal: AbortSignal | undefined;
}

export async function sampleMetrics(
  engine: Engine,
  { scores, samplers, plan }: ScoredRows,
  step: number,
  options: SampleOptions,
): Promise<MeasuredSamples> {
  const common = { ...options, step };
  if (plan !== undefined) {
    const metrics = await sampledMetrics(engine, plan, scores, { ...common, perPrompt: false });
    return { samples: [metrics], matched: options.perRow ? sampledMatched(plan, scores, metrics) : undefined };
  }
  const samples: StepMetrics[] = [];
  for (const [at, sampler] of (samplers.length === 0 ? [undefined] : samplers).entries()) {
    const perPrompt = options.perPrompt && at === 0;
    samples.push(await metricsOfScores(engine, scores, { ...common, perPrompt, sampler }));
  }
  return { samples };
}
