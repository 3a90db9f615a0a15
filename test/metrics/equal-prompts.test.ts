// Which prompts are equal: by their token ids, whatever arrays these come in and however long they are.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import { arrangeColumns } from '../../src/metrics/columns.js';
import { eachRowOnce } from '../../src/metrics/sampling/row-selection.js';

type Tokens = readonly number[] | Int32Array | BigInt64Array;

/** Numbers as written ids give them, in the order of the columns. */
function expected(prompts: readonly Tokens[]): number[] {
  const numbers = new Map<string, number>();
  return prompts.map((tokens) => {
    const key = Array.from(tokens as ArrayLike<number | bigint>, String).join(',');
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key) as number;
  });
}

const signaturesOf = (promptTokens: readonly Tokens[]): Int32Array =>
  arrangeColumns([], Int32Array.from(promptTokens.keys()), promptTokens).signatures;

describe('prompts', () => {
  it('with the same ids have one number, in arrays of any kind', () => {
    const id = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(0, 1, 2, -1, 2 ** 31 - 1, -(2 ** 31)) },
      { weight: 1, arbitrary: fc.constantFrom(2 ** 31, -(2 ** 31) - 1, 2 ** 32, Number.MAX_SAFE_INTEGER) },
    );
    const prompt = fc.tuple(fc.array(id, { maxLength: 3 }), fc.nat(2)).map(([ids, kind]): Tokens => {
      if (kind === 1) return BigInt64Array.from(ids, BigInt);
      return kind === 2 && ids.every((one) => one === (one | 0)) ? Int32Array.from(ids) : ids;
    });
    fc.assert(
      fc.property(fc.array(prompt, { maxLength: 12 }), (prompts) => {
        expect([...signaturesOf(prompts)]).toEqual(expected(prompts));
      }),
      { numRuns: 500 },
    );
  });

  it('are views that begin anywhere, and are left as they are', () => {
    const ids = Int32Array.of(9, 1, 2, 3, 9, 1, 2, 3);
    expect([...signaturesOf([ids.subarray(1, 4), ids.subarray(5), ids.subarray(0, 3), new Int32Array(0), []])]).toEqual(
      [0, 0, 1, 2, 2],
    );
    expect([...ids]).toEqual([9, 1, 2, 3, 9, 1, 2, 3]);
  });

  it.each([[[1.5]], [[Number.NaN]], [['7']], [[null]], [[Symbol('7')]]])('of %o are refused by name', (tokens) => {
    const prompts = [[1], tokens as unknown as number[]];
    expect(() => signaturesOf(prompts)).toThrow(ArgumentError);
    expect(() => signaturesOf(prompts)).toThrow(/^promptTokens\[1\]: entry 0 is .*, expected an integer$/);
  });

  it('that are long and begin alike take no time by their square', () => {
    // Texts of so many ids, which V8 tells apart by their length alone, took nine seconds.
    const [PROMPTS, TOKENS] = [2000, 6000];
    const start = Int32Array.from({ length: TOKENS }, (_, at) => (at * 7919) % 150_000);
    const prompts = Array.from({ length: PROMPTS }, (_, prompt) => {
      const tokens = start.slice();
      tokens[TOKENS - 1] = prompt % 1500;
      return tokens;
    });
    const signatures = signaturesOf(prompts);
    expect(new Set(signatures).size).toBe(1500);
    expect(signatures[1999]).toBe(499);
  });
});

it('rows that rise are there once, and the selection stays the same', () => {
  const rows = Int32Array.from({ length: 1000 }, (_, at) => 2 * at);
  const own = new Int32Array(1000);
  const rest = { columns: Int32Array.of(0), signatures: Int32Array.of(0), prompts: 1, total: 2000, valid: 2000 };
  const selection = { rows, own, ...rest, effectiveRows: 1000 };
  expect(eachRowOnce(selection)).toBe(selection);
  const twice = { ...selection, rows: rows.map((row, at) => (at === 500 ? 4 : row)) };
  expect(eachRowOnce(twice).rows).toHaveLength(999);
});
