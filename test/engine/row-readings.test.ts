// Rows read token by token: against a slow float64 reference, their sums, their places in texts, and their bits.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { RowReading } from '../../src/engine/operations/texts/row-readings.js';
import type { TextRows } from '../../src/engine/operations/texts/text-rows.js';
import { type ReferenceRow, textReference } from '../support/text-reference.js';

let engine: Engine;
let single: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 3 });
  single = await openEngine({ device: 'cpu', threads: 1 });
});
afterAll(async () => {
  await engine.dispose();
  await single.dispose();
});

async function read(rows: TextRows, readings: { rows: number; tokens: number }, by = engine): Promise<RowReading[]> {
  const { readings: found = [] } = await by.textFigures(rows, { permutations: 0, seed: 0, readings });
  return [...found];
}

const ALL = { rows: 1000, tokens: 1000 };
const sumOf = (values: ArrayLike<number>): number => Array.from(values).reduce((sum, value) => sum + value, 0);

/** Steps of a few prompts that share some of their words, with copies, empty rows and rows of one token. */
const steps = fc
  .record({
    words: fc.integer({ min: 1, max: 12 }),
    prompts: fc.array(
      fc.record({
        text: fc.array(fc.nat(11), { maxLength: 6 }),
        rows: fc.array(fc.array(fc.nat(11), { maxLength: 14 }), { minLength: 1, maxLength: 10 }),
      }),
      { minLength: 2, maxLength: 6 },
    ),
    known: fc.boolean(),
  })
  .map(({ words, prompts, known }) => {
    const cut = (list: readonly number[]): number[] => list.map((word) => word % words);
    const tokens = prompts.flatMap(({ rows }) => rows.map(cut));
    const groups = prompts.flatMap(({ rows }, at) => rows.map(() => `p${at}`));
    const texts = new Map(prompts.map(({ text }, at) => [`p${at}`, cut(text)]));
    return { tokens, groups, texts: known ? texts : undefined };
  });

type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;

const rowsOf = ({ tokens, groups, texts }: Step): TextRows => ({
  tokens,
  groups,
  ...(texts && { promptTokens: groups.map((group) => texts.get(group)) }),
});

/** Of rows of equal group and tokens, any order. */
const keyOf = (group: string | undefined, tokens: readonly unknown[] | undefined): string =>
  JSON.stringify([group, tokens]);

describe('rows read token by token', () => {
  it('have of each token what a slow reference finds, in every used row', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (step) => {
        const wanted: ReferenceRow[] = [];
        textReference({ tokens: step.tokens, groups: step.groups, prompts: step.texts }, new Map(), wanted);
        const found = await read(rowsOf(step), ALL);
        expect(found.length).toBe(wanted.length);
        const left = new Map<string, ReferenceRow[]>();
        for (const row of wanted) {
          const key = keyOf(row.group, row.tokens);
          left.set(key, [...(left.get(key) ?? []), row]);
        }
        for (const { row, specificity, nats, tokens, places } of found) {
          expect([tokens, nats.length, places]).toEqual([step.tokens[row]?.length, tokens, undefined]);
          // Copies differ in their folds: one of them must fit.
          const copies = left.get(keyOf(step.groups[row], step.tokens[row])) ?? [];
          const fitting = copies.findIndex((copy) =>
            [...copy.nats, copy.specificity].every(
              (value, at) => Math.abs(value - ([...nats, specificity][at] as number)) < 1e-9,
            ),
          );
          expect(fitting).toBeGreaterThanOrEqual(0);
          copies.splice(fitting, 1);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('add up to the score of the whole row', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (step) => {
        for (const { specificity, nats } of await read(rowsOf(step), ALL)) {
          expect(sumOf(nats)).toBeCloseTo(specificity * (2 * nats.length + 1), 8);
        }
      }),
    );
  });

  it('are the most generic ones and the most specific ones, rising, and of each the first tokens', async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 9 }),
        async (step, rows, tokens) => {
          const all = await read(rowsOf(step), ALL);
          const some = await read(rowsOf(step), { rows, tokens });
          const wanted =
            all.length <= rows
              ? all
              : [...all.slice(0, Math.ceil(rows / 2)), ...all.slice(all.length - Math.floor(rows / 2))];
          expect(some).toEqual(wanted.map((row) => ({ ...row, nats: row.nats.slice(0, tokens) })));
          expect(all.map(({ specificity }) => specificity)).toEqual(
            all.map(({ specificity }) => specificity).toSorted((a, b) => a - b),
          );
        },
      ),
    );
  });

  it('have the same bits for any order of rows and number of threads', async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.infiniteStream(fc.nat()), async (step, keys) => {
        const order = step.tokens
          .map((_, row) => ({ row, key: keys.next().value as number }))
          .sort((a, b) => a.key - b.key);
        const shuffled = {
          ...step,
          tokens: order.map(({ row }) => step.tokens[row] as number[]),
          groups: order.map(({ row }) => step.groups[row] as string),
        };
        const withTexts = ({ tokens, groups }: Step, found: RowReading[]) =>
          found.map(({ row, ...rest }) => ({ ...rest, tokens: tokens[row], group: groups[row] }));
        const wanted = withTexts(step, await read(rowsOf(step), ALL));
        expect(withTexts(shuffled, await read(rowsOf(shuffled), ALL))).toEqual(wanted);
        expect(withTexts(shuffled, await read(rowsOf(shuffled), ALL, single))).toEqual(wanted);
      }),
    );
  });

  it('say where each word stands in its text, string or bytes', async () => {
    const texts = ['The  naïve\n漢字, a\u{1f600}b!', 'x \ud800 y', '\u202eabc', 'Ωmega OMEGA'];
    const groups = [0, 0, 1, 1];
    const words = [
      ['The', 'naïve', '漢', '字', ',', 'a', '\u{1f600}', 'b', '!'],
      ['x', '\ud800', 'y'],
      ['\u202e', 'abc'],
      ['Ωmega', 'OMEGA'],
    ];
    const cut = (text: string | undefined, { places = new Uint32Array() }: RowReading): string[] =>
      Array.from({ length: places.length / 2 }, (_, at) => (text ?? '').slice(places[2 * at], places[2 * at + 1]));
    const found = await read({ texts, groups }, ALL);
    expect(found.length).toBe(4);
    for (const reading of found) expect(cut(texts[reading.row], reading)).toEqual(words[reading.row]);
    // A byte that is no character is a token by itself, one byte long.
    const bytes = [Uint8Array.of(0x61, 0x20, 0xff, 0xfe, 0x62), new TextEncoder().encode('é b'), ...texts.slice(2)];
    const ofBytes = await read({ texts: bytes, groups }, ALL);
    const placesOf = (row: number) => [...(ofBytes.find((reading) => reading.row === row)?.places ?? [])];
    expect(placesOf(0)).toEqual([0, 1, 2, 3, 3, 4, 4, 5]);
    expect(placesOf(1)).toEqual([0, 2, 3, 4]);
  });

  it('name rows as they were given where samples repeat, and tell a copied word from one that only its prompt has', async () => {
    const texts = [
      'same words here',
      'same words here',
      'same words cat',
      'same words cat',
      'same words dog',
      'same words dog',
    ];
    const found = await read({ texts, groups: [0, 0, 1, 1, 2, 2], samples: [7, 7, 1, 2, 3, 4] }, ALL);
    // The first prompt is left with one row, which is none that is used.
    expect(found.map(({ row }) => row).sort()).toEqual([2, 3, 4, 5]);
    for (const { nats } of found) {
      expect(nats[2]).toBeGreaterThan(0.5);
      expect(Math.abs(nats[0] as number)).toBeLessThan(0.1);
    }
  });

  it.each([{ rows: 0, tokens: 1 }, { rows: 1 }, { rows: 1, tokens: 1.5 }, { rows: 1, tokens: 1, row: 1 }])(
    'refuse %o',
    async (readings) => {
      const rows = { texts: ['a', 'b'], groups: [0, 1] };
      await expect(read(rows, readings as never)).rejects.toThrow(/options\.readings/);
    },
  );
});
