// The parts of the benchmark suite that decide what its figures mean: medians, checks of peers, the written tables.
import { spawnSync } from 'node:child_process';
import { beforeAll, expect, test } from 'vitest';
import { buildIfStale } from '../support/built-command.js';

// Plain JavaScript, without declarations; a variable keeps the compiler from looking for them.
const load = (name: string) => import(new URL(`../../bench/${name}.mjs`, import.meta.url).href);

beforeAll(() => buildIfStale()); // bench/run.mjs measures what is in dist/

test('a slow round moves neither the median nor hides in it', async () => {
  const { summary } = await load('suite/statistics');
  const { seconds, rounds, spread, samples } = summary([
    [1, 1.1, 0.9],
    [5, 5, 5],
    [1, 1.02],
  ]);
  expect(seconds).toBeCloseTo(1.01, 12);
  expect(rounds).toEqual([1, 5, 1.01]);
  expect(spread).toBeCloseTo(2 / 1.01, 12);
  expect(samples).toBe(8);
});

test('passes join, and of the reads only the fastest is the roofline', async () => {
  const { Collected, fastestReads } = await load('suite/collected');
  const collected = new Collected();
  for (const pass of [0, 1]) {
    collected.add({ key: 'slow', case: 'x', runner: 'read', threads: 1, prefetchBytes: 0 }, [[3], [3 + pass]]);
    collected.add({ key: 'fast', case: 'x', runner: 'read', threads: 1, prefetchBytes: 64 }, [[2], [2]]);
    collected.add({ key: 'two', case: 'x', runner: 'read', threads: 2, prefetchBytes: 0 }, [[4]]);
    collected.add({ key: 'ours', case: 'x', runner: 'collapsar', threads: 1 }, [[5, 6, 7]]);
  }
  const all = collected.all();
  expect(all.map(({ seconds, rounds }: { seconds: number; rounds: number[] }) => [seconds, rounds.length])).toEqual([
    [3, 4],
    [2, 4],
    [4, 2],
    [6, 2],
  ]);
  expect(fastestReads(all)).toEqual([all[1], all[2], all[3]]);
});

test('targets are sampled as their softmax says, over rows that repeat a pattern', async () => {
  const [{ sampledColumns }, { uniformNumbers }] = [await load('suite/data'), await load('random')];
  const pattern = Float64Array.of(0, 1, 2, -1, 3);
  const columns = 12; // more than the pattern: it wraps around twice
  const rows = 50_000;
  const drawn: Int32Array = sampledColumns(pattern, rows, columns, uniformNumbers(1));
  const expected = new Float64Array(columns);
  const counted = new Float64Array(columns);
  drawn.forEach((column, row) => {
    const terms = Array.from({ length: columns }, (_, at) => Math.exp(pattern[(row * columns + at) % 5] as number));
    const sum = terms.reduce((a, b) => a + b);
    terms.forEach((term, at) => {
      expected[at] = (expected[at] as number) + term / sum;
    });
    counted[column] = (counted[column] as number) + 1;
  });
  for (let at = 0; at < columns; at++) {
    const mean = expected[at] as number;
    expect(Math.abs((counted[at] as number) - mean)).toBeLessThan(5 * Math.sqrt(mean));
  }
});

test('a peer that computes something else is not compared', async () => {
  const { compareResults } = await load('peers/checks');
  const tensor = { data: Float32Array.of(1, 3, 3, 0, 2, 1), shape: [2, 3] };
  const ours = {
    logsumexp: Float64Array.of(3.5, 2.5),
    argmax: Float64Array.of(1, 1),
    rankAbove: Float64Array.of(2, 0),
  };
  const check = (theirs: object) => compareResults(ours, theirs, tensor, 1e-3).problem;
  expect(check({ logsumexp: [3.5005, 2.5] })).toBeUndefined();
  expect(check({ logsumexp: [3.6, 2.5] })).toContain('logsumexp differs by');
  expect(check({ logsumexp: [Number.NaN, 2.5] })).toContain('logsumexp differs by NaN');
  expect(check({ logsumexp: [3.5] })).toContain('has 1 entries, ours 2');
  expect(check({ argmax: [2, 1] })).toBeUndefined(); // the same value stands there
  expect(check({ argmax: [0, 1] })).toContain('argmax differs by');
  expect(check({ rankAbove: [2, 1] })).toContain('rankAbove differs by 1, allowed 0');
  expect(check({ something: [1, 2] })).toContain('nothing that can be compared');
});

test('every case has a name of its own, and inputs keep to the budget', async () => {
  const { listCases, elementBytes } = await load('suite/cases');
  for (const peers of [false, true]) {
    const budget = 32 * 2 ** 20;
    const cases: { id: string; dtype: string; shape: number[] }[] = listCases({ peers, budget });
    expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length);
    for (const { dtype, shape } of cases) {
      const bytes = shape.reduce((product, extent) => product * extent, elementBytes[dtype]);
      expect(bytes).toBeGreaterThan(0);
      expect(bytes).toBeLessThanOrEqual(budget);
    }
  }
});

test('a case has smaller ones with fewer rows, a step no fewer than prompts', async () => {
  const { smallerCase } = await load('suite/cases');
  const logits = { id: 'logitStats float32 [441, 151936]', operation: 'logitStats', dtype: 'float32' };
  const whole = { ...logits, shape: [441, 151_936] };
  expect(smallerCase(whole, 1)).toBe(whole);
  expect(smallerCase(whole, 4)).toMatchObject({
    id: 'logitStats float32 [110, 151936]',
    shape: [110, 151_936],
    smallerThan: whole.id,
  });
  expect(smallerCase(whole, 1000).shape).toEqual([1, 151_936]);
  const step = { id: 'step float32 [64, 2048, 512]', operation: 'step', dtype: 'float32', shape: [64, 2048, 512] };
  expect(smallerCase(step, 16).shape).toEqual([64, 128, 512]);
  expect(smallerCase(step, 64).shape).toEqual([64, 64, 512]);
});

test('a choice of no case is refused, and so is a part of the tables for the page', async () => {
  const { chosenCases, listCases } = await load('suite/cases');
  const given = { peers: false, only: '', docs: false, budget: 32 * 2 ** 20 };
  expect(chosenCases(given)).toEqual(listCases(given));
  expect(chosenCases({ ...given, docs: true })).toEqual(listCases(given));
  const some: { id: string }[] = chosenCases({ ...given, only: 'scoreStats' });
  expect(some.length).toBeGreaterThan(1);
  expect(some.every(({ id }) => id.startsWith('scoreStats'))).toBe(true);
  expect(() => chosenCases({ ...given, only: 'zzz' })).toThrow(/^no case contains 'zzz'; cases:\n {2}logitStats /);
  expect(() => chosenCases({ ...given, only: 'scoreStats', docs: true })).toThrow('leave one of them out');
});

test.each([
  [['--quick', '--only', 'zzz'], "bench: no case contains 'zzz'; cases:\n  logitStats "],
  [['--only', 'scoreStats', '--docs'], 'bench: --docs writes the whole table and --only measures a part'],
  [['--minutes', '0'], 'bench: --minutes 0: expected a number above 0'],
  [['--onyl', 'scoreStats'], "bench: Unknown option '--onyl'"],
  [['--help'], 'usage: npm run bench (or bench:peers) -- [--quick] [--minutes N] [--only TEXT]'],
])('wrong usage has status 2 and measures nothing: %j', (args, message) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/run.mjs', ...args], { encoding: 'utf8' });
  expect(stderr).toContain(message);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
});

test('the table holds rates, the share of the roofline and the ratio to each peer', async () => {
  const { measureTable, unbeaten } = await load('suite/report');
  const common = { case: 'x', isa: 'avx2', threads: 1, elements: 1e9, bytes: 4e9, rounds: [], spread: 0.02 };
  const measures = [
    { ...common, runner: 'read', seconds: 0.8 },
    { ...common, runner: 'read', threads: 2, seconds: 0.1 },
    { ...common, runner: 'lines', seconds: 0.9 },
    { ...common, runner: 'arithmetic', seconds: 5e-11 },
    { ...common, runner: 'collapsar', seconds: 1 },
    { ...common, runner: 'peer', peer: 'numpy', seconds: 12 },
    { ...common, runner: 'peer', peer: 'torch', threads: 2, seconds: 0.3 },
  ];
  expect(unbeaten({ measures })).toEqual([]); // torch had two threads
  const table = measureTable({ measures, isa: 'avx2' });
  expect(table).toHaveLength(2);
  expect(table[1]).toEqual(['x', 'avx2', '1', '1.00 s', '1.00', '4.00', '0.80', '0.90', '20.0', '2%', 'numpy 12.0×']);
  // Arithmetic was timed on the instruction set that the engine chose, not on one that was forced.
  expect(measureTable({ measures, isa: 'avx512' })[1][8]).toBe('');
  measures[5] = { ...common, runner: 'peer', peer: 'numpy', seconds: 0.5 };
  expect(unbeaten({ measures })).toEqual(['x, 1 thread: numpy takes 0.50× as long']);
});

test('a section of the page is replaced between its markers only', async () => {
  const { replaceSection } = await load('suite/report');
  const page = 'a\n<!-- begin: bench -->\nold\n<!-- end: bench -->\nb\n<!-- begin: peers -->\n<!-- end: peers -->\n';
  const once = replaceSection(page, 'bench', 'new');
  expect(once).toBe(page.replace('old', 'new'));
  expect(replaceSection(once, 'bench', 'new')).toBe(once);
  expect(() => replaceSection(page, 'other', 'new')).toThrow('no markers');
});

test('the suite computes in Node what it compares with: plain loops against the engine', async () => {
  const { openEngine } = await import('../../src/index.js');
  const { makeInput } = await load('suite/data');
  const { plainLoopPeers } = await load('peers/plain-loops');
  const { compareResults } = await load('peers/checks');
  const engine = await openEngine({ device: 'cpu', threads: 2 });
  try {
    const summed = { operation: 'sumTokens', dtype: 'float32', shape: [3, 7, 11] };
    const tokens = makeInput(summed, engine);
    const { sums, firstInvalid } = await engine.sumTokens(tokens.tensor, tokens.lengths);
    expect(firstInvalid).toBeNull(); // padding, which is NaN, was not read
    expect(tokens.bytes).toBe(4 * 3 * tokens.lengths.reduce((sum: number, length: number) => sum + length, 0));
    const [sumLoop] = plainLoopPeers(summed, tokens);
    expect(compareResults({ sums: sums.data }, sumLoop.run(), tokens.tensor, 1e-6).problem).toBeUndefined();

    const scored = { operation: 'scoreStats', dtype: 'float64', shape: [9, 13] };
    const scores = makeInput(scored, engine);
    const stats = await engine.scoreStats(scores.tensor, { own: scores.own, lengths: scores.lengths });
    const [statsLoop] = plainLoopPeers(scored, scores);
    const { errors, problem } = compareResults(stats, statsLoop.run(), scores.tensor, 1e-9);
    expect(problem).toBeUndefined();
    expect(Object.keys(errors).sort()).toEqual(
      ['argmax', 'marginalSeq', 'marginalToken', 'matchedSeq', 'posteriorEntropy', 'rankAbove'].sort(),
    );
  } finally {
    await engine.dispose();
  }
});
