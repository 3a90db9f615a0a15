// The absolute statement, which needs no start to compare with: responses that cannot be told from ones that ignore
// their prompt.

import { figure } from '../../checks/numbers.js';
import { count, fields, flag, nullable, type Shaped } from '../../checks/saved.js';
import type { StepLevels } from '../levels/step-levels.js';
import type { Finding } from '../verdict.js';

/** A batch must be able to tell: fewer prompts or rows say nothing. */
const LEAST_PROMPTS = 8;
const LEAST_ROWS = 64;

/** Steps in succession that must agree. */
const STEPS = 2;

export const inputAgnosticShape = fields({
  /** Steps in succession without dependence, and the first of them. */
  steps: count,
  since: nullable(count),
  /** Whether any step has shown that responses depend on their prompt. */
  depended: flag,
});
export type InputAgnosticJson = Shaped<typeof inputAgnosticShape>;

export class InputAgnostic {
  #state: InputAgnosticJson;

  constructor(saved: InputAgnosticJson = { steps: 0, since: null, depended: false }) {
    this.#state = saved;
  }

  toJSON(): InputAgnosticJson {
    return { ...this.#state };
  }

  look(step: number, levels: StepLevels): Finding | undefined {
    const { prompts, rows, retrievalP } = levels;
    if (prompts >= LEAST_PROMPTS && rows >= LEAST_ROWS && retrievalP !== null) {
      const reachesZero = levels.whole.low <= 0;
      const { steps, since, depended } = this.#state;
      if (reachesZero && retrievalP > 0.05) this.#state = { steps: steps + 1, since: since ?? step, depended };
      // What one of the two denies ends the streak before the verdict, and both must to end the verdict.
      else if (!reachesZero && retrievalP <= 0.05) this.#state = { steps: 0, since: null, depended: true };
      else if (steps < STEPS) this.#state = { steps: 0, since: null, depended };
    }
    const { steps, since, depended } = this.#state;
    if (steps < STEPS || since === null) return undefined;
    return inputAgnostic(since, levels, depended);
  }
}

function inputAgnostic(since: number, levels: StepLevels, depended: boolean): Finding {
  const { whole, retrieval, chance, retrievalP, prompts, rows, instrument } = levels;
  const p = retrievalP === null ? '' : ` (p = ${figure(retrievalP)})`;
  const hits =
    retrieval === null || chance === null
      ? ''
      : `, retrieval ${figure(retrieval)} with chance at ${figure(chance)}${p}`;
  return {
    kind: 'input_agnostic',
    severity: depended ? 'critical' : 'warning',
    since,
    evidence: { mi: whole.value, miLow: whole.low, miHigh: whole.high, retrieval, chance, retrievalP, prompts, rows },
    advice: depended
      ? 'Stop, and go back to a checkpoint from before: the reasoning no longer depends on its prompt. Then train on prompts ' +
        'with high reward variance only.'
      : 'Check that the prompt reaches the model where log-probs are scored, and that rows and prompts are labelled rightly; ' +
        'if both are right, this policy has ignored its prompts from the beginning.',
    sentence:
      `The reasoning cannot be told from one that ignores its prompt: ${instrument.mi} is ${figure(whole.value)} ` +
      `[${figure(whole.low)}, ${figure(whole.high)}] nats a response${hits}; so since step ${since}.${instrument.remark}`,
  };
}
