// A computation small enough to know the answer, through every native step of an analysis.
import type { Engine } from '../../engine/engine.js';

/** Each of two responses has probability 0.8 under its own prompt and 0.2 under the other. */
const FITTING = Math.log(0.8);
const OTHER = Math.log(0.2);
/** ln 0.8 − ln((0.8 + 0.2) / 2) */
const EXPECTED_MI = Math.log(1.6);
const TOLERANCE = 1e-12;

/** @returns what came out wrong, in words; null when everything is right */
export async function selfTest(engine: Engine): Promise<string | null> {
  const logprobs = Float64Array.of(FITTING, OTHER, OTHER, FITTING);
  const lengths = [1, 1];
  const labels = { own: [0, 1], lengths };
  const { sums } = await engine.sumTokens({ data: logprobs, dtype: 'float64', shape: [2, 2, 1] }, lengths);
  const stats = await engine.scoreStats(sums, labels);
  const { excessSeq, hits } = await engine.stepMoments(stats, labels);
  const { figures } = await engine.inferStep(sums, stats, { ...labels, permutations: 0, seed: 0 });
  for (const [what, found] of [
    ['mean', excessSeq.mean],
    ['estimate', figures.miSeq.estimate],
  ] as const) {
    if (!(Math.abs(found - EXPECTED_MI) <= TOLERANCE)) return `MI (${what}) is ${found}, expected ${EXPECTED_MI}`;
  }
  return hits[0] === 2 ? null : `${hits[0]} of 2 responses were matched to their prompt, expected 2`;
}
