// Aggregates: exact against rationals of BigInts, close to sorted values, and the same figures however steps are grouped.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactSum } from '../../src/analysis/aggregates/aggregate-sum.js';
import { Aggregates } from '../../src/analysis/aggregates/aggregates.js';
import { QuantileSketch } from '../../src/analysis/aggregates/quantile-sketch.js';

const finite = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.double({ noNaN: true, min: -10, max: 10 }),
  fc.constantFrom(0, -0, 5e-324, -5e-324, 2 ** -1022, Number.MAX_VALUE, -Number.MAX_VALUE, 1, 0.5, 2 ** 1000, 1e-300),
);
const any = fc.oneof(
  { weight: 5, arbitrary: finite },
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
);

/** A double as an integer of units of 2^−1074, by halving and doubling alone. */
function units(value: number): bigint {
  let exponent = 0;
  let rest = value;
  while (!Number.isInteger(rest)) {
    rest *= 2;
    exponent++;
  }
  return (BigInt(rest) << 1074n) >> BigInt(exponent);
}

/** a / b < c / d for positive denominators. */
const distance = (value: number, numerator: bigint, count: bigint): bigint => {
  const gap = units(value) * count - numerator;
  return gap < 0n ? -gap : gap;
};

function neighbours(value: number): number[] {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const at = view.getBigInt64(0);
  return [at - 1n, at + 1n].map((bits) => {
    view.setBigInt64(0, bits);
    return view.getFloat64(0);
  });
}

const summed = (values: readonly number[]): ExactSum => {
  const sum = new ExactSum();
  for (const value of values) sum.add(value);
  return sum;
};

describe('exact sums', () => {
  it('are those of rationals, in any order', () => {
    fc.assert(
      fc.property(fc.array(finite, { maxLength: 40 }), fc.infiniteStream(fc.nat()), (values, keys) => {
        const exact = values.reduce((total, value) => total + units(value), 0n);
        const keyed = values.map((value) => ({ value, key: keys.next().value as number }));
        const shuffled = keyed.sort((a, b) => a.key - b.key).map(({ value }) => value);
        for (const order of [values, shuffled]) expect(summed(order).units).toBe(exact);
      }),
      { numRuns: 300 },
    );
  });

  it('merge like numbers added one by one', () => {
    fc.assert(
      fc.property(fc.array(finite), fc.array(finite), (left, right) => {
        const merged = summed(left);
        merged.merge(summed(right));
        expect(merged.units).toBe(summed([...left, ...right]).units);
        for (const value of right) merged.add(value);
        expect(merged.units).toBe(summed([...left, ...right, ...right]).units);
      }),
    );
  });

  it('give the double nearest to the mean', () => {
    fc.assert(
      fc.property(fc.array(finite, { minLength: 1, maxLength: 20 }), (values) => {
        const sum = summed(values);
        const mean = sum.mean(values.length);
        const count = BigInt(values.length);
        const gap = distance(mean, sum.units, count);
        for (const other of neighbours(mean === 0 ? 5e-324 : mean)) {
          if (Number.isFinite(other)) expect(gap <= distance(other, sum.units, count)).toBe(true);
        }
        if (sum.units === 0n) expect(mean).toBe(0);
      }),
      { numRuns: 500 },
    );
    expect(summed([0.1, 0.2, 0.3]).mean(1)).toBe(0.6);
    expect(summed([1e308, 1e308, -1e308]).mean(1)).toBe(1e308);
    expect(summed([Number.MAX_VALUE, Number.MAX_VALUE]).mean(2)).toBe(Number.MAX_VALUE);
    expect(summed([5e-324, 0]).mean(2)).toBe(0);
    expect(summed([5e-324, 5e-324, 5e-324]).mean(2)).toBe(1e-323);
    expect(summed([1, 2 ** -53]).mean(1)).toBe(1);
    expect(summed([1, 2 ** -53, 2 ** -1074]).mean(1)).toBe(1 + 2 ** -52);
  });
});

/** Order statistics and type 7, from all values. */
function exactQuantile(sorted: readonly number[], share: number): [lower: number, upper: number] {
  const at = share * (sorted.length - 1);
  return [sorted[Math.floor(at)] as number, sorted[Math.ceil(at)] as number];
}

const SHARES = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1];

describe('quantile sketches', () => {
  it('are within 2^-8 of the sorted values, and exact at the ends', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(finite, fc.double({ min: 1, max: 1.1, noNaN: true })), { minLength: 1, maxLength: 300 }),
        (values) => {
          const sketch = new QuantileSketch();
          for (const value of values) sketch.add(value);
          const sorted = values.map((value) => value + 0).sort((a, b) => a - b);
          const found = sketch.quantiles(SHARES);
          for (const [at, share] of SHARES.entries()) {
            const [lower, upper] = exactQuantile(sorted, share);
            // Below the normal numbers buckets have one absolute width.
            const slack = (value: number) => Math.max(Math.abs(value) / 256, 2 ** -1030);
            expect(found[at]).toBeGreaterThanOrEqual(lower - slack(lower));
            expect(found[at]).toBeLessThanOrEqual(upper + slack(upper));
          }
          expect([found[0], found.at(-1)]).toEqual([sorted[0], sorted.at(-1)]);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('are exact for few different values', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 100 }), (values) => {
        const sketch = new QuantileSketch();
        for (const value of values) sketch.add(value / 8);
        const sorted = values.map((value) => value / 8).sort((a, b) => a - b);
        for (const [at, found] of sketch.quantiles(SHARES).entries()) {
          const position = (SHARES[at] as number) * (sorted.length - 1);
          const [lower, upper] = exactQuantile(sorted, SHARES[at] as number);
          expect(found).toBeCloseTo(lower + (upper - lower) * (position - Math.floor(position)), 12);
        }
      }),
    );
  });

  it('have nothing to say of nothing', () => {
    expect(new QuantileSketch().quantiles([0.5])).toEqual([Number.NaN]);
  });

  it('stay small: a value range of 1 to 2 has 256 buckets, whatever the number of values', () => {
    const sketch = new QuantileSketch();
    for (let i = 0; i < 100_000; i++) sketch.add(1 + i / 100_000);
    expect(sketch.quantiles([0.5])[0]).toBeCloseTo(1.499995, 8);
  });
});

const metrics = fc.array(fc.tuple(fc.constantFrom('a/x', 'a/y', 'b', '__proto__'), any), { maxLength: 6 });
const aggregatesOf = (steps: readonly (readonly (readonly [string, number])[])[]): Aggregates => {
  const aggregates = new Aggregates();
  for (const step of steps) aggregates.add(step);
  return aggregates;
};

describe('aggregates', () => {
  it('are the same figures for any grouping and any order of steps', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(metrics, fc.nat(4)), { maxLength: 30 }), fc.array(fc.nat()), (steps, picks) => {
        const whole = aggregatesOf(steps.map(([step]) => step));
        // Steps fall into five parts, which are merged two at a time, in an order drawn at random.
        let parts = [0, 1, 2, 3, 4].map((part) =>
          aggregatesOf(steps.filter(([, own]) => own === part).map(([step]) => step)),
        );
        for (let round = 0; parts.length > 1; round++) {
          const at = (picks[round] ?? 0) % parts.length;
          const [left] = parts.splice(at, 1) as [Aggregates];
          const other = (picks[round + 1] ?? 0) % parts.length;
          const [right] = parts.splice(other, 1) as [Aggregates];
          left.merge(right);
          parts = [...parts, left];
        }
        expect(parts[0]?.summary()).toEqual(whole.summary());
      }),
      { numRuns: 200 },
    );
  });

  it('count what is not finite apart', () => {
    const { a } = aggregatesOf([
      [['a', Number.NaN]],
      [['a', 2]],
      [['a', Number.POSITIVE_INFINITY]],
      [['a', 4]],
    ]).summary();
    expect(a).toEqual({
      count: 2,
      mean: 3,
      min: 2,
      max: 4,
      p5: 2.1,
      p25: 2.5,
      p50: 3,
      p75: 3.5,
      p95: 3.9,
      nonFinite: 2,
    });
    expect(aggregatesOf([[['a', Number.NaN]]]).summary()).toEqual({ a: { count: 0, nonFinite: 1 } });
  });

  it('give the chosen metrics in one order', () => {
    const aggregates = aggregatesOf([
      [
        ['b', 1],
        ['a', 1],
        ['c', 1],
      ],
    ]);
    expect(Object.keys(aggregates.summary((key) => key !== 'b'))).toEqual(['a', 'c']);
  });
});
