// Cheaper scoring inside the monitor: which pairs a step wants scored (docs/guide/cheaper-scoring.md).
import { ArgumentError } from '../checks/errors.js';
import type { Lengths } from '../metrics/metric-arguments.js';
import { drawPlan, HARD_SHARE_DEFAULT, type ScorePlan } from '../metrics/sampled/plan.js';
import { canonicalTurns, turnsByRows } from '../metrics/sampled/prompt-turns.js';
import type { OpenLabels } from './outcomes/step-labels.js';

/** @throws {ArgumentError} if the negatives cannot be drawn as asked for */
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
  // planScores can be told the turns of prompts, a monitor cannot.
  const advice = 'a monitor knows turns by their rows alone: construct it without `hardShare`';
  const ofPrompts = canonicalTurns(turnsByRows(columns, turns, advice), columns.order);
  return drawPlan({ columns, lengths, turns: ofPrompts }, { negatives, seed, hardShare });
}
