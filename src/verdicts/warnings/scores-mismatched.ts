// Scores of other rows, prompts or weights: responses that are likelier under others' prompts than under their own were
// not sampled from what was scored, and nothing else can be read from such scores.

import { figure } from '../../checks/numbers.js';
import { count, fields, flag, kept, nullable } from '../../checks/saved.js';
import type { Estimate, StepLevels } from '../levels/step-levels.js';
import { fixedExp } from '../statistics/fixed-math.js';
import type { Finding } from '../verdict.js';

/** One-sided p of I(X;Z) as far below 0, were the rows sampled from what was scored. */
const LEVEL = 1e-6;

/** Steps in succession that must agree. */
const STEPS = 2;

/** From this p on a step does not count as evidence of anything else, either. */
const DOUBTFUL = 1e-3;

export const scoresMismatchedShape = fields({
  steps: count,
  since: nullable(count),
  /** Whether the latest step is in doubt; whether there has been any step. */
  isDoubtful: flag,
  isSeen: flag,
});

export class ScoresMismatched extends kept(scoresMismatchedShape) {
  /** Whether the scores of the latest step may not be of its rows: then it says nothing of its policy. */
  get isDoubtful(): boolean {
    return this.state.isDoubtful;
  }

  get isSeen(): boolean {
    return this.state.isSeen;
  }

  /** Bounds of texts, which may be below 0, are not for this. */
  look(step: number, { whole, rows }: StepLevels): Finding | undefined {
    const pValue = belowZeroP(whole, rows);
    const { steps, since } = this.state;
    const found = pValue <= LEVEL ? { steps: steps + 1, since: since ?? step } : { steps: 0, since: null };
    Object.assign(this.state, found, { isDoubtful: pValue <= DOUBTFUL, isSeen: true });
    if (found.steps < STEPS || found.since === null) return undefined;
    return scoresMismatched(found.since, whole, pValue);
  }
}

/**
 * At most P(I(X;Z) as low or lower) for rows that were sampled from the scored distributions of their own prompts, of
 * whatever shape: E exp(−v) ≤ 1 for the value v of each row, ln p(z|own) less the log of the mean over prompts, so that
 * P(their sum ≤ −a) ≤ exp(−a) (Markov). Errors, which a batch of a collapsed policy may give as 0, have no part in it.
 */
export function belowZeroP({ value, high }: Estimate, rows: number): number {
  return high < 0 ? fixedExp(Math.max(-700, rows * value)) : 1;
}

function scoresMismatched(since: number, { value, low, high }: Estimate, pValue: number): Finding {
  return {
    kind: 'scores_mismatched',
    severity: 'critical',
    since,
    evidence: { mi: value, miLow: low, miHigh: high, pValue },
    advice:
      'Correct what is scored; until then nothing else is said of the dependence. Usual causes: rows in another order than ' +
      'their groups or log-probs; prompt columns in another order than their ids; log-probs of other weights than those ' +
      'that sampled (an older checkpoint, a reference model, an adapter that is off), or at another temperature; prompts rendered with another chat ' +
      'template or cut; log-probs shifted by a token.',
    now: `I(X;Z) is ${figure(value)} [${figure(low)}, ${figure(high)}]`,
    sentence:
      'The scores do not belong to the rows: responses are likelier under other prompts than under their own, which ' +
      `no policy makes of what it samples. I(X;Z) is ${figure(value)} [${figure(low)}, ${figure(high)}] nats a response, below 0 ` +
      `(p ≤ ${figure(pValue)}); so since step ${since}.`,
  };
}
