// Rollouts cut to what one reads: characters, words and numbers survive the cut, whatever the text is.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { float16Bits } from '../../../src/engine/tensor/float16-array.js';
import { type Excerpt, excerptsOf, joinedIds, READINGS, type RowTexts } from '../../../src/step/prompts/excerpts.js';
import { fromBits } from '../../engine/engine-reference.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 1 });
});
afterAll(() => engine.dispose());

interface Rows {
  readonly reasoning?: readonly string[];
  readonly tokens?: readonly Int32Array[];
  readonly prompt?: readonly (string | undefined)[];
  readonly reward?: readonly number[];
  readonly number?: readonly (number | undefined)[];
}

function textsOf({ reasoning, tokens, prompt, reward, number }: Rows): RowTexts {
  return {
    group: (row) => `g${row >> 1}`,
    reasoning: (row) => reasoning?.[row] ?? joinedIds(tokens?.[row]),
    prompt: (row) => prompt?.[row],
    reward: (row) => reward?.[row],
    number: (row) => number?.[row],
  };
}

async function excerpts(given: Rows): Promise<Excerpt[]> {
  const { reasoning: texts, tokens } = given;
  const rows = (texts ?? tokens ?? []).map((_, row) => row);
  const step = { ...(texts ? { texts } : { tokens }), groups: rows.map((row) => row >> 1) };
  const { readings } = await engine.textFigures(step, { permutations: 0, seed: 0, readings: READINGS });
  return [...excerptsOf(rows, readings, textsOf(given)).rollouts];
}

function wordsOf({ reasoning, places, nats }: Excerpt): { words: string[]; nats: number[] } {
  const at = Buffer.from(places, 'base64');
  const characters = [...reasoning];
  const bits = Buffer.from(nats, 'base64');
  const count = bits.length / 2;
  return {
    words: Array.from({ length: count }, (_, token) =>
      characters.slice(at.readUInt16LE(4 * token), at.readUInt16LE(4 * token + 2)).join(''),
    ),
    nats: Array.from({ length: count }, (_, token) => fromBits(bits.readUInt16LE(2 * token), 'float16')),
  };
}

describe('excerpts', () => {
  it('have each word where the engine found it, and its nats to float16', async () => {
    const texts = fc.array(fc.string({ unit: 'binary', maxLength: 30 }), { minLength: 4, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(texts, async (reasoning) => {
        const groups = reasoning.map((_, row) => row >> 1);
        const { readings = [] } = await engine.textFigures(
          { texts: reasoning, groups },
          { permutations: 0, seed: 0, readings: READINGS },
        );
        const found = await excerpts({ reasoning });
        if (readings.length === 0) return;
        expect(found.map(({ row, specificity }) => [row, specificity])).toEqual(
          readings.map(({ row, specificity }) => [row, specificity]),
        );
        for (const [at, { row, nats, places }] of readings.entries()) {
          const excerpt = found[at] as Excerpt;
          const text = (reasoning[row] as string).toWellFormed();
          expect([excerpt.reasoning, excerpt.length]).toEqual([text, [...text].length]);
          const { words, nats: kept } = wordsOf(excerpt);
          expect(words).toEqual(
            Array.from(nats, (_, token) => text.slice(places?.[2 * token], places?.[2 * token + 1])),
          );
          for (const [token, value] of kept.entries()) {
            expect(Math.abs(value - (nats[token] as number))).toBeLessThanOrEqual(Math.abs(value) / 1024 + 1e-7);
          }
        }
      }),
    );
  });

  it('are bounded, and say how long the whole was: lines of a megabyte, pairs cut in two', async () => {
    const astral = '\u{1f600}'.repeat(5000);
    const long = 'word '.repeat(200_000);
    const prompt = `begin ${'x'.repeat(2 ** 20)} end`;
    const reasoning = [long, `${long}!`, astral, `a${astral}`, '\ud800 b', 'c \udc00'];
    const prompts = [prompt, prompt, astral, astral, undefined, 'short'];
    const found = await excerpts({ reasoning, prompt: prompts, reward: [1, 2, Number.NaN, 4, 5, 6] });
    const byRow = found.toSorted((a, b) => a.row - b.row);
    expect(byRow.map(({ length }) => length)).toEqual([1_000_000, 1_000_001, 5000, 5001, 3, 3]);
    expect(byRow.map((one) => [...one.reasoning].length)).toEqual([4096, 4096, 4096, 4096, 3, 3]);
    expect(byRow.map(({ promptLength }) => promptLength)).toEqual([prompt.length, prompt.length, 5000, 5000, 0, 5]);
    expect(byRow[0]?.prompt).toMatch(/^begin x+ \[…\] x+ end$/);
    expect(
      byRow.every((one) => [...(one.prompt ?? '')].length <= 1024 + 5 && one.prompt?.isWellFormed() !== false),
    ).toBe(true);
    expect(byRow[4]?.prompt).toBeNull();
    expect(byRow.map(({ reward }) => reward)).toEqual([1, 2, null, 4, 5, 6]);
    expect(byRow[4]?.reasoning).toBe('\ufffd b');
    // Words that the cut goes through are left out.
    const { words } = wordsOf(byRow[0] as Excerpt);
    expect([words.length, new Set(words)]).toEqual([819, new Set(['word'])]);
    expect(byRow[0]?.tokens).toBe(200_000);
    expect(wordsOf(byRow[2] as Excerpt).words.length).toBe(1000);
  });

  it('of token ids are these, a space apart', async () => {
    const tokens = [[5, 17, 5], [17], [100, 5], [2]].map((ids) => Int32Array.from(ids));
    const prompt = tokens.map(() => joinedIds([1, 2n]));
    const found = await excerpts({ tokens, prompt, number: [9, Number.NaN, 7, 6] });
    expect(found.length).toBe(4);
    const byRow = new Map(found.map((one) => [one.row, one]));
    expect([...byRow.keys()].sort()).toEqual([1, 6, 7, 9]);
    expect(byRow.get(9)).toMatchObject({ reasoning: '5 17 5', prompt: '1 2', tokens: 3 });
    expect(wordsOf(byRow.get(9) as Excerpt).words).toEqual(['5', '17', '5']);
    expect(wordsOf(byRow.get(7) as Excerpt).words).toEqual(['100', '5']);
  });

  it('are the first rows, without numbers, where there are no text figures', () => {
    const reasoning = Array.from({ length: 40 }, (_, row) => `text ${row}`);
    const rows = [...Array(40).keys()].filter((row) => row % 2 === 1);
    const found = excerptsOf(rows, undefined, textsOf({ reasoning }));
    expect(found.rows).toBe(20);
    expect(found.rollouts.map(({ row }) => row)).toEqual(rows.slice(0, 16));
    expect(found.rollouts[0]).toMatchObject({ group: 'g0', specificity: null, tokens: 0, places: '', nats: '' });
  });
});

describe('bits of float16', () => {
  it('give back every value that has them, and round others to the nearest, ties to even', () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = fromBits(bits, 'float16');
      if (Number.isNaN(value)) expect(Number.isNaN(fromBits(float16Bits(value), 'float16'))).toBe(true);
      else expect(float16Bits(value)).toBe(bits);
      const next = fromBits(bits + 1, 'float16');
      if ((bits & 0x7fff) >= 0x7bff) continue;
      const middle = (value + next) / 2;
      expect(float16Bits(middle)).toBe(bits + (bits % 2));
      expect(float16Bits(value + (next - value) * 0.49)).toBe(bits);
    }
    expect([1e9, -65520, Number.NEGATIVE_INFINITY].map(float16Bits)).toEqual([0x7bff, 0xfbff, 0xfc00]);
  });
});
