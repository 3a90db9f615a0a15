// A measured step -> what its z-scores and its run's moving averages are made of.

import type { MeasuredStep } from '../measured-step.js';
import type { MarginalSpread, StepSpread } from '../step-metrics.js';

export function stepSpread({ moments }: MeasuredStep, floor: MarginalSpread): StepSpread {
  return {
    current: { std: moments.marginalToken.std, stdSeq: moments.marginalSeq.std },
    excess: { token: moments.excessToken.mean, seq: moments.excessSeq.mean },
    floor,
  };
}
