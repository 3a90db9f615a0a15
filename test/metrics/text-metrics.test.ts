// Text figures: the answers of the contract, a slow reference on random steps, bits, errors, and what is absent.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { TextPrompts } from '../../src/engine/operations/texts/text-prompts.js';
import type { TextRows } from '../../src/engine/operations/texts/text-rows.js';
import { textMetrics } from '../../src/metrics/text-metrics.js';
import { fromBits } from '../engine/engine-reference.js';
import { uniformNumbers } from '../support/random-numbers.js';
import { type ReferencePrompt, textReference } from '../support/text-reference.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

interface Case {
  tokens: number[][];
  groups: number[];
  prompts: Record<string, number[]> | null;
  figures: Record<string, number> | null;
}
const golden = JSON.parse(
  readFileSync(fileURLToPath(new URL('../golden/text_cases.json', import.meta.url)), 'utf8'),
) as { cases: Case[]; words: { text: string; tokens: string[] }[] };

const rowsOf = ({ tokens, groups, prompts }: Case): TextRows =>
  prompts === null ? { tokens, groups } : { tokens, groups, promptTokens: groups.map((group) => prompts[group]) };

const KEYS = [...new Set(golden.cases.flatMap(({ figures }) => Object.keys(figures ?? {})))];

/** Figures within 1e-9, cells of matrices within half a step of what they are kept as. */
function expectPrompts(found: TextPrompts | undefined, wanted: ReadonlyMap<string, ReferencePrompt>): void {
  expect(new Set(found?.groups)).toEqual(new Set(wanted.keys()));
  found?.groups.forEach((group, i) => {
    const { rows, mi, retrieval, posterior, nats } = wanted.get(group) as ReferencePrompt;
    expect(found.rows[i]).toBe(rows);
    expect(found.mi[i]).toBeCloseTo(mi, 8);
    expect(found.retrieval[i]).toBeCloseTo(retrieval, 8);
    found.groups.forEach((other, p) => {
      const cell = i * found.groups.length + p;
      const share = 255 * (posterior.get(other) as number);
      expect(Math.abs((found.posterior?.[cell] as number) - share)).toBeLessThan(0.5 + 1e-6);
      const expected = nats.get(other) as number;
      const given = fromBits(found.nats?.[cell] as number, 'float16');
      expect(Math.abs(given - expected)).toBeLessThanOrEqual(Math.abs(expected) / 2048 + 1e-7);
    });
  });
}

/** Every wanted figure within 1e-9, and no other figure of these names given. */
function expectFigures(
  found: Readonly<Record<string, number>>,
  wanted: Readonly<Record<string, number>>,
  where: string,
): void {
  for (const key of KEYS) {
    if (key === 'half_split_statistic' && !(key in wanted) && 'mi_bound' in wanted) continue;
    if (wanted[key] === undefined) expect(found[key], `${where}: ${key}`).toBeUndefined();
    else expect(Math.abs((found[key] as number) - wanted[key]), `${where}: ${key}`).toBeLessThanOrEqual(1e-9);
  }
}

/** Figures and phrases to the last bit. */
const bitsOf = ({ values, phrases }: Awaited<ReturnType<typeof textMetrics>>): unknown => ({ values, phrases });

describe('textMetrics', () => {
  it('gives the figures of all 80 steps of the golden file', async () => {
    for (const [at, one] of golden.cases.entries()) {
      const { values, absent, interval, pValue } = await textMetrics(engine, rowsOf(one), { permutations: 19 });
      if (one.figures === null) {
        expect(absent.mi_bound, `case ${at}`).toMatch(/fewer than two prompts/);
        expect(interval).toHaveProperty('absent');
        expect(pValue).toHaveProperty('absent');
      }
      expectFigures(values, one.figures ?? {}, `case ${at}`);
    }
  });

  it('cuts texts into the words of the golden file', async () => {
    for (const { text, tokens } of golden.words) {
      // A phrase that all prompts hold comes back with its words apart; nobody else has `row…`.
      const padded = ['lead', 'in', 'to', ...tokens, 'and', 'out', 'again'];
      const texts = Array.from({ length: 8 }, (_, row) => `lead in to ${text} and out again row${row}`);
      const { phrases } = await textMetrics(engine, { texts, groups: [0, 0, 1, 1, 2, 2, 3, 3] }, { permutations: 0 });
      expect(phrases.map((phrase) => phrase.text)).toEqual([padded.join(' ')]);
    }
  });

  it('agrees with a slow reference on random steps of every shape', async () => {
    const random = uniformNumbers(35);
    const below = (n: number): number => Math.floor(random() * n);
    for (let draw = 0; draw < 60; draw++) {
      const vocabulary = [4, 30, 300, 2 ** 40][below(4)] as number;
      const prompts = 1 + below(9);
      const each = [1, 2, 3, 7, 20][below(5)] as number;
      const template = Array.from({ length: 8 }, () => below(vocabulary));
      const ids = Array.from({ length: prompts }, (_, j) => (draw % 2 === 0 ? j * 7 : `id\\${j}\n${j % 3}`));
      const texts = new Map(ids.map((id) => [id, Array.from({ length: below(12) }, () => below(vocabulary))]));
      const tokens: number[][] = [];
      const groups: (number | string)[] = [];
      for (const id of ids) {
        const rows = Math.max(1, each - below(3));
        for (let row = 0; row < rows; row++) {
          const own = texts.get(id) as number[];
          const length = [0, 1, 5, 40][below(4)] as number;
          const text = random() < 0.4 ? [...template] : [];
          while (text.length < length) {
            text.push(random() < 0.3 && own.length > 0 ? (own[below(own.length)] as number) : below(vocabulary));
          }
          const copies = random() < 0.2 ? 2 : 1;
          for (let copy = 0; copy < copies; copy++) {
            tokens.push(text);
            groups.push(id);
          }
        }
      }
      const known = below(2) === 1;
      const ofPrompts = new Map<string, ReferencePrompt>();
      const wanted = textReference({ tokens, groups, prompts: known ? texts : undefined }, ofPrompts);
      const rows = { tokens, groups, promptTokens: known ? groups.map((id) => texts.get(id)) : undefined };
      const { values, perPrompt } = await textMetrics(engine, rows, { permutations: 0, perPrompt: true });
      expectFigures(values, wanted ?? {}, `draw ${draw}`);
      expectPrompts(perPrompt, ofPrompts);
      // As words the same tokens are the same figures; only the order of rows of equal keys could differ.
      const spelled = tokens.map((one) => one.join(' '));
      const spelledPrompts = known ? groups.map((id) => texts.get(id)?.join('\n')) : undefined;
      const asWords = await textMetrics(
        engine,
        { texts: spelled, groups, prompts: spelledPrompts },
        { permutations: 0 },
      );
      expectFigures(asWords.values, wanted ?? {}, `draw ${draw} as words`);
    }
  });

  it('gives the same bits for any order of rows, kind of array and number of threads', async () => {
    const one = golden.cases.find(({ tokens, prompts }) => tokens.length > 100 && prompts !== null) as Case;
    const wanted = bitsOf(await textMetrics(engine, rowsOf(one)));
    const order = one.tokens.map((_, row) => row).sort((a, b) => ((a * 7919) % 1009) - ((b * 7919) % 1009));
    const shuffled: TextRows = {
      tokens: order.map((row, at) => {
        const ids = one.tokens[row] as number[];
        return [ids, Int32Array.from(ids), BigInt64Array.from(ids, BigInt)][at % 3] as number[];
      }),
      groups: BigInt64Array.from(order, (row) => BigInt(one.groups[row] as number)),
      promptTokens: order.map((row) => one.prompts?.[one.groups[row] as number]),
    };
    expect(bitsOf(await textMetrics(engine, shuffled))).toEqual(wanted);
    for (const threads of [1, 3, 16]) {
      const other = await openEngine({ device: 'cpu', threads });
      expect(bitsOf(await textMetrics(other, shuffled))).toEqual(wanted);
      await other.dispose();
    }
  });

  it('has p-values that these seeds give for good', async () => {
    const one = golden.cases[3] as Case;
    const pOf = async (permutations: number, seed: number) =>
      (await textMetrics(engine, rowsOf(one), { permutations, seed })).pValue;
    // The shuffles of metrics.md's permutations: CounterRandom(seed, b), the last row first.
    expect([await pOf(999, 0), await pOf(99, 1), await pOf(19, 2 ** 40)]).toMatchInlineSnapshot(`
      [
        0.203,
        0.2,
        0.25,
      ]
    `);
    expect(await pOf(0, 0)).toEqual({ absent: 'no permutations were asked for' });
  });

  it('groups rows by their prompts where no ids are given, counts repeated samples once', async () => {
    const texts = ['a b', 'a c', 'x y', 'x z', 'x z', 'x z'];
    const prompts = ['p', 'p', 'q', 'q', 'q', 'q'];
    const byPrompt = await textMetrics(engine, { texts, prompts });
    expect(byPrompt.rows).toEqual({ total: 6, used: 6, empty: 0, repeated: 0 });
    expect(byPrompt.prompts).toEqual({ used: 2, known: true });
    const named = await textMetrics(engine, { texts, prompts, groups: prompts });
    expect(bitsOf(named)).toEqual(bitsOf(byPrompt));
    const once = await textMetrics(engine, { texts, prompts, samples: [0, 1, 2, 3, 3, 3n] });
    expect(once.rows).toEqual({ total: 6, used: 4, empty: 0, repeated: 2 });
    expect(bitsOf(once)).toEqual(
      bitsOf(await textMetrics(engine, { texts: texts.slice(0, 4), prompts: prompts.slice(0, 4) })),
    );
    const ids = await textMetrics(engine, { tokens: [[1], [2], [3], [4]], prompts: ['p', 'p', 'q', 'q'] });
    expect(ids.prompts).toEqual({ used: 2, known: false });
  });

  it('takes bytes for strings, and lone surrogates for replacements', async () => {
    const texts = ['naïve 漢字 a\u{1f600}', 'b \ud800 c', 'd', 'e \ufffd f'];
    const groups = [0, 0, 1, 1];
    const bytes = texts.map((text) => new TextEncoder().encode(text));
    expect(bitsOf(await textMetrics(engine, { texts: bytes, groups }))).toEqual(
      bitsOf(await textMetrics(engine, { texts, groups })),
    );
  });

  it('says what a phrase was at the first step', async () => {
    const groups = [0, 0, 1, 1, 2, 2];
    const later = groups.map((_, row) => `let us think step by step ${row}`);
    const first = groups.map((_, row) => (row === 0 ? 'let us think step by step' : `nothing ${row}`));
    const { phrases } = await textMetrics(engine, { texts: later, groups }, { firstStep: { texts: first, groups } });
    expect(phrases).toHaveLength(1);
    expect(phrases[0]).toMatchObject({
      text: 'let us think step by step',
      prompts: 3,
      tokens: 6,
      shareAtFirstStep: 1 / 6,
    });
    expect(phrases[0]?.share).toBeCloseTo(6 / 7, 12);
  });

  it('counts empty and truncated rows, and lengths, even where there are no figures', async () => {
    const { values, absent, notes } = await textMetrics(engine, {
      texts: ['', 'a b c', 'd'],
      groups: ['x', 'x', 'x'],
      truncated: [false, true, false],
    });
    expect(values).toEqual({
      empty_share: 1 / 3,
      truncated_share: 1 / 3,
      'response_length/mean': 4 / 3,
      'response_length/min': 0,
      'response_length/max': 3,
    });
    expect(absent.mi_bound).toBe('fewer than two prompts have a row with text');
    expect(notes).toEqual([]);
    const nothing = await textMetrics(engine, { texts: [], groups: [] });
    expect(nothing.values).toEqual({});
    expect(nothing.absent.empty_share).toBe('the step has no rows');
  });

  it.each([
    [{}, 'rows'],
    [{ texts: ['a'], tokens: [[1]], groups: [0] }, 'rows'],
    [{ texts: ['a', 'b'], groups: [0] }, 'rows.groups'],
    [{ texts: ['a', 'b'] }, 'rows.groups'],
    [{ texts: ['a', 'b'], prompts: ['p', undefined] }, 'rows.prompts'],
    [{ texts: ['a', 3], groups: [0, 1] }, 'rows.texts'],
    [{ texts: ['a', 'b'], groups: [0.5, 1] }, 'rows.groups'],
    [{ tokens: [[1], [-1]], groups: [0, 1] }, 'rows.tokens'],
    [{ tokens: [[1], [1.5]], groups: [0, 1] }, 'rows.tokens'],
    [{ tokens: [[1], ['a']], groups: [0, 1] }, 'rows.tokens[1]'],
    [{ texts: ['a'], groups: [0], promptTokens: [[1]] }, 'rows.promptTokens'],
    [{ texts: ['a'], groups: [0], prompt: ['p'] }, 'rows.prompt'],
    [{ texts: ['a'], groups: [0], truncated: [true, true] }, 'step.truncated'],
    [{ texts: ['a'], groups: [0], samples: [null] }, 'rows.samples'],
  ])('refuses %o, naming %s', async (step, argument) => {
    const refused = textMetrics(engine, step as never);
    await expect(refused).rejects.toThrow(ArgumentError);
    await expect(refused).rejects.toMatchObject({ argument });
  });

  it('ends at an abort', async () => {
    const controller = new AbortController();
    const tokens = Array.from({ length: 400 }, (_, row) =>
      Int32Array.from({ length: 2000 }, (__, i) => (i * row) % 4001),
    );
    const groups = tokens.map((_, row) => row % 100);
    const running = textMetrics(engine, { tokens, groups }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 5);
    const reason = await running.catch((error: unknown) => error);
    expect(reason).toBe(controller.signal.reason);
  });
});

// Logs that are too large for the repository lie beside it, where they are at all.
const root = fileURLToPath(new URL('../..', import.meta.url));
const shared =
  ['shared', '../shared', '../../shared'].map((folder) => join(root, folder, 'data')).find(existsSync) ?? '';

/** What stands between the tags, or after the first one. */
const reasoningOf = (output: string): string => /<think>([\s\S]*?)(?:<\/think>|$)/.exec(output)?.[1] ?? output;

describe.skipIf(!existsSync(`${shared}/gsm-verl/expected.json`))('textMetrics on real solutions (gsm-verl)', () => {
  it.each(['drift', 'steady'])('gives what is expected of %s', async (run) => {
    const expected = JSON.parse(readFileSync(`${shared}/gsm-verl/expected.json`, 'utf8'))[run] as Record<
      string,
      number
    >[];
    expect(expected.length).toBe(20);
    for (const wanted of expected) {
      const rows = readFileSync(`${shared}/gsm-verl/${run}/${wanted.step}.jsonl`, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { input: string; output: string; uid: string });
      const { values } = await textMetrics(engine, {
        texts: rows.map(({ output }) => reasoningOf(output)),
        groups: rows.map(({ uid }) => uid.split('_').slice(0, -2).join('_')),
        prompts: rows.map(({ input }) => input),
      });
      expectFigures(values, wanted, `${run} step ${wanted.step}`);
    }
  });
});

describe.skipIf(!existsSync(`${shared}/trl-runs`))('textMetrics on runs of TRL', () => {
  it.each(['falling', 'collapse', 'filtered', 'steady'])('gives figures of every step of %s', async (run) => {
    const folder = `${shared}/trl-runs/${run}/completions`;
    const bounds: number[] = [];
    const templates: number[] = [];
    for (const name of readdirSync(folder).sort()) {
      const bytes = readFileSync(`${folder}/${name}`);
      const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
      const rows = (await parquetReadObjects({ file })) as { prompt: string; completion: string }[];
      const { values } = await textMetrics(
        engine,
        {
          texts: rows.map(({ completion }) => reasoningOf(completion)),
          prompts: rows.map(({ prompt }) => prompt),
        },
        { permutations: 99 },
      );
      bounds.push(values.mi_bound as number);
      templates.push(values.template_share as number);
    }
    expect(bounds.length).toBeGreaterThan(20);
    expect(bounds.every((bound) => bound <= Math.log(16))).toBe(true);
    if (run === 'falling') {
      expect(bounds.at(-1)).toBeLessThan((bounds[0] as number) - 1);
      expect([templates[0], Math.max(...templates)]).toEqual([0.25, 0.82].map((share) => expect.closeTo(share, 1)));
    }
  });
});
