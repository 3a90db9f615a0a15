// Batches of rewards for the property tests of the filter.
import fc from 'fast-check';

/** Rewards that shifts and scalings by small dyadic numbers keep exact. */
const quarter = fc.integer({ min: -12, max: 12 }).map((value) => value / 4);

/** Groups of 2 to 6 rollouts, uneven, ties and constant groups among them. */
export const raggedBatch = fc.array(fc.array(quarter, { minLength: 2, maxLength: 6 }), { minLength: 1, maxLength: 12 });

/** Groups of one size, of rewards that hardly ever tie. */
export const evenBatch = fc.integer({ min: 2, max: 6 }).chain((size) =>
  fc.array(fc.array(fc.double({ min: -3, max: 3, noNaN: true }), { minLength: size, maxLength: size }), {
    minLength: 1,
    maxLength: 12,
  }),
);

export const dialect = fc.constantFrom('strict', 'ragen', 'paper', 'upstream', 'dapo');
export const direction = fc.constantFrom('largest', 'smallest');
export const rewardMetric = fc.constantFrom('reward_variance', 'reward', 'reward_sum');

/** A strategy with a value in its range. */
export const strategy = fc.oneof(
  fc.record({ strategy: fc.constant('top_p'), value: fc.double({ min: 0.01, max: 1, noNaN: true }) }),
  fc.record({ strategy: fc.constant('top_k'), value: fc.double({ min: 0.01, max: 1, noNaN: true }) }),
  fc.record({ strategy: fc.constant('top_k_abs'), value: fc.integer({ min: 1, max: 14 }) }),
  fc.record({ strategy: fc.constant('min_p'), value: fc.double({ min: 0, max: 1, noNaN: true }) }),
) as fc.Arbitrary<{ strategy: 'top_p' | 'top_k' | 'top_k_abs' | 'min_p'; value: number }>;

/** Whole numbers that depend on the seed alone: a linear congruential generator, its upper bits. */
export function numbersFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 8;
  };
}
