// Exact JSON: what goes in comes out, whatever it is.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseLossless, stringifyLossless } from '../../../src/analysis/store/lossless-json.js';

const leaf = fc.oneof(
  fc.double(),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, Number.MAX_VALUE),
  fc.integer(),
  fc.bigInt(),
  fc.string({ unit: 'binary' }),
  fc.string().map((text) => `\0${text}`),
  fc.constantFrom('\0', '\0\0', '\0NaN', '\0-0', '\x007n', '\\u0000NaN'),
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

  it('writes the rest as texts that no text is written as', () => {
    expect(stringifyLossless([Number.NaN, Number.NEGATIVE_INFINITY, -0, 7n, -12n, '\0NaN', { a: undefined }])).toBe(
      '["\\u0000NaN","\\u0000-Infinity","\\u0000-0","\\u00007n","\\u0000-12n","\\u0000\\u0000NaN",{}]',
    );
  });

  it('fails with a SyntaxError for what is no JSON', () => {
    for (const text of ['', '{', 'NaN', '[1,]']) expect(() => parseLossless(text)).toThrow(SyntaxError);
  });

  it('does not let "__proto__" change what an object is', () => {
    const value = parseLossless('{"__proto__":{"x":1},"a":"\\u00002n"}') as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(['__proto__', 'a']);
  });
});
