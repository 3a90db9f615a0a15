// The numbers of a native result, in the order in which native code has them -> what the operation gives. Native code
// would have to name each property anew for every step, a hundred of them, which took as long as computing them.
import type { Figure, FigureInference, Moments, StepInference, StepMoments, SubsetInference } from './operations.js';

/** In the order of native/node/jobs/step_moments.cpp. */
export function momentsFrom(numbers: Float64Array): StepMoments {
  let at = 0;
  const next = (): number => numbers[at++] as number;
  const moments = (): Moments => ({ mean: next(), std: next() });
  return {
    rows: next(),
    matchedToken: moments(),
    marginalToken: moments(),
    matchedSeq: moments(),
    marginalSeq: moments(),
    excessSeq: moments(),
    excessToken: moments(),
    excessPerToken: moments(),
    looExcessSeq: moments(),
    posteriorEntropy: moments(),
    hits: [next(), next(), next(), next()],
  };
}

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
  const figures: Record<Figure, FigureInference> = {
    miSeq: figure(),
    miSeqLoo: figure(),
    miPerToken: figure(),
    miToken: figure(),
    retrieval1: figure(),
    retrieval2: figure(),
    retrieval4: figure(),
    retrieval8: figure(),
  };
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
  const among: StepInference['among'][number][] = [];
  for (let prompts = 2; at < numbers.length; prompts *= 2) among.push({ prompts, ...subset() });
  return { rows, figures, among, margin, withinVariance, calibrated };
}
