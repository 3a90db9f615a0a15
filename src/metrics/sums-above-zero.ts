// Finds sums of token log-probs above 0: they cannot be log-probs, and figures of them would mean nothing.
import { ArgumentError } from '../checks/errors.js';
import { figure } from '../checks/numbers.js';

/** What rounding of an engine's bfloat16 or float16 log-probs makes of a certain token or two, nats … */
const ROUNDING = 0.1;

/** … and of many, nats a token. */
const ROUNDING_PER_TOKEN = 0.01;

/** Whether it is more than rounding can make; infinities and NaN are for `nonFinite`. */
export function isAboveZero(sum: number, tokens: number): boolean {
  return sum > ROUNDING + ROUNDING_PER_TOKEN * tokens && sum < Number.POSITIVE_INFINITY;
}

/** @param place of the sum, as `row 3, prompt 0` */
export function aboveZeroError(argument: string, place: string, sum: number, tokens: number): ArgumentError {
  const most = figure(ROUNDING + ROUNDING_PER_TOKEN * tokens);
  return new ArgumentError(
    argument,
    `${place}: the log-probs of its ${tokens} tokens add up to ${figure(sum)} nats, above 0 by more than rounding makes (${most}): ` +
      'give ln p of each token under the prompt as it is, not probabilities, losses (−ln p) or logits',
  );
}
