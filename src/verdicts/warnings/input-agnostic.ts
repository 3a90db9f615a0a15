// Finds responses that cannot be distinguished from ones that ignore their prompt: an absolute statement, which needs
// no start to compare with.

import { figure } from '../../checks/numbers.js';
import { count, fields, kept, nullable, number, oneOf, type Shaped } from '../../checks/saved.js';
import { CarriedFall, carriedFallShape } from '../levels/carried-fall.js';
import type { RunLevel } from '../levels/run-level.js';
import type { StepLevels } from '../levels/step-levels.js';
import { WIDTH_95 } from '../statistics/threshold-state.js';
import type { Finding } from '../verdict.js';

/** A batch must be able to tell: fewer prompts or rows say nothing. */
const LEAST_PROMPTS = 8;
const LEAST_ROWS = 64;

/** Steps in succession that must agree, … */
const STEPS = 2;

/** … and one more each time that this many tests share the level: a chance of one in as many says less then. */
const TESTS_A_STEP = 20;

/** A p-value up to here shows dependence. */
const SHOWN = 0.05;

/** In standard errors. */
const BEYOND_DOUBT = 3.29;

const sumsShape = fields({
  /** Number of steps, and over them the sums of I(X;Z) and of its squared errors. */
  steps: count,
  mi: number,
  squares: number,
});
type Sums = Shaped<typeof sumsShape>;

const NO_SUMS: Sums = { steps: 0, mi: 0, squares: 0 };

const plus = (a: Sums, b: Sums): Sums => ({
  steps: a.steps + b.steps,
  mi: a.mi + b.mi,
  squares: a.squares + b.squares,
});

/** Whether the mean of later steps is less beyond doubt than that of the ones before. */
const isLess = (later: Sums, before: Sums): boolean => {
  const gap = before.mi / before.steps - later.mi / later.steps;
  return (
    gap > BEYOND_DOUBT * Math.hypot(Math.sqrt(before.squares) / before.steps, Math.sqrt(later.squares) / later.steps)
  );
};

/** What no single batch shows, all of them together may. */
const depends = ({ mi, squares }: Sums): boolean => mi > WIDTH_95 * Math.sqrt(squares);

export const inputAgnosticShape = fields({
  /** Steps in succession without dependence, and the first of them. */
  silent: sumsShape,
  since: nullable(count),
  /** What the steps before show together. */
  before: sumsShape,
  /** Whether the run's start supports the present loss. */
  loss: carriedFallShape,
  severity: nullable(oneOf('warning', 'critical')),
});
type Severity = Shaped<typeof inputAgnosticShape>['severity'];

const NONE = { silent: NO_SUMS, since: null, severity: null } as const;

export class InputAgnostic extends kept(inputAgnosticShape) {
  readonly #loss = new CarriedFall(this.state.loss);

  /** @param level of the run at the number of prompts at which the step is compared; the step's value is in it */
  look(step: number, levels: StepLevels, level: RunLevel): Finding | undefined {
    const { whole, prompts, rows, retrievalP, tests = 1 } = levels;
    const needed = STEPS + Math.ceil(Math.log(tests) / Math.log(TESTS_A_STEP));
    if (prompts >= LEAST_PROMPTS && rows >= LEAST_ROWS && retrievalP !== null) {
      const reachesZero = whole.low <= 0;
      const { silent, since, before } = this.state;
      const now: Sums = { steps: 1, mi: whole.value, squares: whole.error ** 2 };
      if (reachesZero && retrievalP > SHOWN) {
        Object.assign(this.state, { silent: plus(silent, now), since: since ?? step });
      } else if (silent.steps < needed || (!reachesZero && retrievalP <= SHOWN)) {
        // What one of the two denies ends the streak before the verdict, and both must to end the verdict.
        Object.assign(this.state, { ...NONE, before: plus(plus(before, silent), now) });
        this.#loss.forget();
      }
    }
    const { silent, since, before, severity } = this.state;
    if (silent.steps < needed || since === null) return undefined;
    if (severity !== 'critical') this.state.severity = this.#found(since, level, silent, before, tests);
    return this.state.severity === null ? undefined : inputAgnostic(since, levels, this.state.severity);
  }

  /**
   * If single batches hardly show dependence in this run, a few batches without it are not a loss.
   */
  #found(since: number, level: RunLevel, silent: Sums, before: Sums, tests: number): Severity {
    const isLost = level.comparable ? this.#loss.look(since, level, tests) : isLess(silent, before);
    if (depends(silent)) return this.state.severity;
    if (depends(before)) return isLost ? 'critical' : this.state.severity;
    return 'warning';
  }
}

function inputAgnostic(since: number, levels: StepLevels, severity: 'warning' | 'critical'): Finding {
  const { whole, retrieval, chance, retrievalP, prompts, rows, instrument } = levels;
  const p = retrievalP === null ? '' : ` (p = ${figure(retrievalP)})`;
  const hits =
    retrieval === null || chance === null
      ? ''
      : `, retrieval ${figure(retrieval)} with chance at ${figure(chance)}${p}`;
  // The steps together may say what one of them does not.
  const isClear = whole.low <= 0 && (retrievalP === null || retrievalP > SHOWN);
  const words = isClear
    ? 'The reasoning cannot be told from one that ignores its prompt'
    : `Together, the steps since ${since} show no dependence of the reasoning on its prompt, though this one alone may`;
  return {
    kind: 'input_agnostic',
    severity,
    since,
    evidence: { mi: whole.value, miLow: whole.low, miHigh: whole.high, retrieval, chance, retrievalP, prompts, rows },
    advice:
      severity === 'critical'
        ? 'Stop, and go back to a checkpoint from before: the reasoning no longer depends on its prompt. Then train on prompts ' +
          'with high reward variance only.'
        : 'Check that the prompt reaches the model where log-probs are scored, and that rows and prompts are labelled rightly; ' +
          'if both are right, this policy has ignored its prompts from the beginning.',
    now: `${instrument.mi} is ${figure(whole.value)} [${figure(whole.low)}, ${figure(whole.high)}] nats a response`,
    sentence:
      `${words}: ${instrument.mi} is ${figure(whole.value)} ` +
      `[${figure(whole.low)}, ${figure(whole.high)}] nats a response${hits}; so since step ${since}.${instrument.remark}`,
  };
}
