// Exact JSON: what goes in comes out, whatever it is, and what cannot have gone in is refused.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseLossless, stringifyLossless } from '../../src/analysis/results/lossless-json.js';
import { ArgumentError, StateError } from '../../src/checks/errors.js';

const leaf = fc.oneof(
  fc.double(),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, Number.MAX_VALUE),
  fc.integer(),
  fc.bigInt(),
  fc.string({ unit: 'binary' }),
  fc.boolean(),
  fc.constant(null),
);
const key = fc.oneof(
  fc.string(),
  fc.constantFrom('$', '$$', '$x', '__proto__', 'constructor', 'toJSON', '0', '10', ''),
);
const { data } = fc.letrec<{ data: unknown }>((tie) => ({
  data: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('data'), { maxLength: 5 }),
    fc.dictionary(key, tie('data'), { maxKeys: 5, noNullPrototype: true }),
  ),
}));

/** Numbers by Object.is, keys in their order; toStrictEqual stumbles over a key "constructor". */
function same(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b);
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    left.length === right.length &&
    left.every(([name, member], at) => name === right[at]?.[0] && same(member, right[at]?.[1]))
  );
}

function expectSame(found: unknown, given: unknown): void {
  if (!same(found, given)) expect(found).toStrictEqual(given);
  expect(same(found, given)).toBe(true);
}

describe('exact JSON', () => {
  it('gives back any plain data, in the same order, as one line', () => {
    fc.assert(
      fc.property(data, (value) => {
        const text = stringifyLossless(value);
        expect(text).not.toMatch(/[\n\r]/);
        expectSame(parseLossless(text), value);
        expect(stringifyLossless(parseLossless(text))).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it('is JSON where JSON has a word for it', () => {
    const value = { a: [1, -2.5e-300, 'x\u2028\ud800"', null, true], b: {} };
    expect(stringifyLossless(value)).toBe(JSON.stringify(value));
  });

  it('writes the rest as objects with one key', () => {
    expect(stringifyLossless([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 7n, -12n])).toBe(
      '[{"$":"NaN"},{"$":"Infinity"},{"$":"-Infinity"},{"$":"-0"},{"$":"7n"},{"$":"-12n"}]',
    );
    expect(stringifyLossless({ $: 1, $$: 2, a: undefined })).toBe('{"$$":1,"$$$":2}');
  });

  it('refuses what is no plain data', () => {
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    for (const value of [
      undefined,
      [undefined],
      // biome-ignore lint/suspicious/noSparseArray: what must be refused
      [, 1],
      () => 1,
      Symbol('x'),
      new Map(),
      new Float64Array(2),
      new Date(0),
      cyclic,
      10n ** 1000n,
    ]) {
      expect(() => stringifyLossless(value)).toThrow(ArgumentError);
    }
  });

  it.each([
    '',
    '{',
    'NaN',
    '[1,]',
    '{"$":"nan"}',
    '{"$":"constructor"}',
    '{"$":1}',
    '{"$":"1"}',
    '{"$":"01n"}',
    '{"$":"-0n"}',
    '{"$":"1n","a":1}',
    '{"$a":1}',
    `{"$":"1${'0'.repeat(1000)}n"}`,
    '['.repeat(1000) + ']'.repeat(1000),
  ])('refuses %s', (text) => {
    expect(() => parseLossless(text)).toThrow(StateError);
  });

  it('reads the deepest that is written, and nothing deeper', () => {
    const nested = (depth: number): unknown =>
      depth === 0 ? 1 : depth % 2 === 0 ? [nested(depth - 1)] : { $: nested(depth - 1) };
    const deepest = nested(64);
    expectSame(parseLossless(stringifyLossless(deepest)), deepest);
    expect(() => stringifyLossless([deepest])).toThrow(/nested deeper than 64/);
    expect(() => parseLossless(`[${stringifyLossless(deepest)}]`)).toThrow(/nested deeper than 64/);
  });

  it('never gives anything but a value or a StateError', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json().map((text) => text.replaceAll('"a', '"$')),
        ),
        (text) => {
          try {
            const value = parseLossless(text);
            expectSame(parseLossless(stringifyLossless(value)), value);
          } catch (error) {
            expect(error).toBeInstanceOf(StateError);
          }
        },
      ),
    );
  });

  it('does not let "__proto__" change what an object is', () => {
    const value = parseLossless('{"__proto__":{"x":1},"$$":2}') as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(['__proto__', '$']);
  });
});
