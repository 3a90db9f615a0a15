// Checks a trainer's outcomes of a step once its rollouts are judged: rewards and other values, one per row.
import { checkArray, checkKnown, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { optionsObject } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import type { RewardValues } from '../../filter/input/filter-input.js';
import type { BucketGradients } from '../../step/outcomes/gradient-decomposition.js';
import { checkSwaps } from '../../verdicts/evidence/check-evidence.js';
import type { ReasoningSwaps } from '../../verdicts/evidence/step-evidence.js';
import {
  copyFlags,
  copyIntegers,
  copyNumbers,
  copyRewards,
  type RowFlags,
  type RowNumbers,
  type RowRewards,
} from './row-values.js';
import type { OpenLabels } from './step-labels.js';

/** One value a row, [R], in the order of `groups`. Everything may be missing: what needs it is then not given. */
export interface StepOutcomes {
  /**
   * Reward of the row's rollout; null if there is none, which counts as NaN does. Turns of one trajectory each have
   * the trajectory's reward, or the option `turnRewards` says what theirs make.
   */
  readonly rewards?: RowRewards | undefined;
  /** Task success or outcome reward, where `rewards` is shaped. */
  readonly outcomes?: RowNumbers | undefined;
  /** A discrete action or answer, or its hash. */
  readonly actions?: Integers | undefined;
  /** The reasoning was well formed. */
  readonly valid?: RowFlags | undefined;
  /** Token-mean entropy of the policy over the row's response, nats. */
  readonly entropies?: RowNumbers | undefined;
  /** Tokens of the whole response. */
  readonly responseLengths?: RowNumbers | undefined;
  /** Reasoning log-prob sums with the state or image removed from the prompt, nats: for grounding. */
  readonly ablated?: RowNumbers | undefined;
  /** log p(action | prompt, reasoning of another row), for I(Z;A|X). */
  readonly reasoningSwaps?: ReasoningSwaps | undefined;
  /** At a step with a validation: the share of tasks solved, in [0, 1], in all or by task. */
  readonly success?: number | Readonly<Record<string, number>> | undefined;
  /** Norms of the gradients of each bucket of reward std (`step.buckets()` names them). */
  readonly gradientNorms?: BucketGradients | undefined;
  /** Any other figures of the step, to be correlated with success over the run. */
  readonly figures?: Readonly<Record<string, number>> | undefined;
}

/** The same, copied and checked. */
export interface CheckedOutcomes {
  readonly rewards: RewardValues | undefined;
  readonly outcomes: Float64Array | undefined;
  readonly actions: Integers | undefined;
  readonly valid: Uint8Array | undefined;
  readonly entropies: Float64Array | undefined;
  readonly responseLengths: Float64Array | undefined;
  readonly ablated: Float64Array | undefined;
  readonly reasoningSwaps: ReasoningSwaps | undefined;
  /** By task; the task of a single number is ''. */
  readonly success: Readonly<Record<string, number>> | undefined;
  readonly gradientNorms: BucketGradients | undefined;
  readonly figures: Readonly<Record<string, number>> | undefined;
}

const OUTCOMES = optionNames<StepOutcomes>({
  rewards: true,
  outcomes: true,
  actions: true,
  valid: true,
  entropies: true,
  responseLengths: true,
  ablated: true,
  reasoningSwaps: true,
  success: true,
  gradientNorms: true,
  figures: true,
});

/** @throws {ArgumentError} naming what does not fit, down to the row */
export function checkOutcomes(
  given: StepOutcomes,
  { rows, groups }: Pick<OpenLabels, 'rows' | 'groups'>,
): CheckedOutcomes {
  checkKnown(optionsObject(given, 'outcomes'), 'outcomes', OUTCOMES);
  const numbers = (values: RowNumbers | undefined, name: string): Float64Array | undefined =>
    values === undefined ? undefined : copyNumbers(values, `outcomes.${name}`, rows);
  const counts = (values: RowNumbers | undefined, name: string): Float64Array | undefined =>
    values === undefined
      ? undefined
      : copyNumbers(values, `outcomes.${name}`, rows, 'a count of tokens', (n) => Number.isSafeInteger(n) && n >= 0);
  const { actions, valid, ablated, reasoningSwaps, gradientNorms, figures } = given;
  return {
    // The filter decides about rewards that are not finite: it has an option to leave such rollouts out.
    rewards: given.rewards === undefined ? undefined : copyRewards(given.rewards, 'outcomes.rewards', rows),
    outcomes: numbers(given.outcomes, 'outcomes'),
    actions: actions === undefined ? undefined : copyIntegers(actions, 'outcomes.actions', rows),
    valid: valid === undefined ? undefined : copyFlags(valid, 'outcomes.valid', rows),
    entropies: numbers(given.entropies, 'entropies'),
    responseLengths: counts(given.responseLengths, 'responseLengths'),
    ablated:
      ablated === undefined
        ? undefined
        : copyNumbers(ablated, 'outcomes.ablated', rows, 'a log-prob', (value) => !Number.isNaN(value)),
    reasoningSwaps: reasoningSwaps === undefined ? undefined : copySwaps(reasoningSwaps, groups),
    success: successByTask(given.success),
    gradientNorms: gradientNorms === undefined ? undefined : copyNorms(gradientNorms),
    figures: checkFigures(figures),
  };
}

function copySwaps(swaps: ReasoningSwaps, groups: Integers): ReasoningSwaps {
  optionsObject(swaps, 'outcomes.reasoningSwaps');
  const { logprobs, reasonings } = swaps;
  const argument = 'outcomes.reasoningSwaps.logprobs';
  checkArray(logprobs, argument);
  const numbers = ArrayBuffer.isView(logprobs) ? (logprobs as RowNumbers) : Array.from(logprobs);
  const copy = { logprobs: copyNumbers(numbers, argument, numbers.length, 'a log-prob', () => true), reasonings };
  checkSwaps(copy, groups, 'outcomes.reasoningSwaps');
  return copy;
}

/** Which buckets there are is known when the step ends: checkGradients() looks at the norms. */
function copyNorms(gradients: BucketGradients): BucketGradients {
  const argument = 'outcomes.gradientNorms';
  const copies = Object.entries(optionsObject(gradients, argument)).map(([bucket, norms]) => [
    bucket,
    { ...optionsObject(norms, `${argument}.${bucket}`) },
  ]);
  return Object.fromEntries(copies) as BucketGradients;
}

function successByTask(success: StepOutcomes['success']): Readonly<Record<string, number>> | undefined {
  if (success === undefined) return undefined;
  const byTask: Record<string, number> =
    typeof success === 'number' ? { '': success } : { ...(optionsObject(success, 'outcomes.success') as object) };
  for (const [task, rate] of Object.entries(byTask)) {
    if (typeof rate === 'number' && rate >= 0 && rate <= 1) continue;
    const argument = task === '' ? 'outcomes.success' : `outcomes.success.${task}`;
    throw new ArgumentError(argument, `got ${shown(rate)}, expected a share from 0 to 1`);
  }
  return byTask;
}

function checkFigures(figures: StepOutcomes['figures']): Readonly<Record<string, number>> | undefined {
  if (figures === undefined) return undefined;
  const copy = { ...optionsObject(figures, 'outcomes.figures') };
  for (const [name, value] of Object.entries(copy)) {
    if (typeof value !== 'number') {
      throw new ArgumentError(`outcomes.figures.${name}`, `got ${shown(value)}, expected a number`);
    }
  }
  return copy as Record<string, number>;
}
