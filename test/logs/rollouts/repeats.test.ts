// What was logged more than once: files beside their copies, stretches after a restart, whole steps, rows.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LogPart } from '../../../src/logs/rollouts/log-part.js';
import { lastTimes } from '../../../src/logs/rollouts/repeats/last-times.js';
import { buildIfStale } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { jsonLines, putLogs, readAll, readOne } from './rollout-logs.js';

// Threads run what is in dist/.
beforeAll(buildIfStale, 180_000);

const root = temporaryDirectory();
let count = 0;
const fresh = (): string => join(root, `log${count++}`);
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(fresh(), files);
const data = (name: string): string => join(import.meta.dirname, '../../data/repeats', name);

const row = (step: number, at: number, more: object = {}) => ({
  step,
  group: at >> 1,
  output: `${step} ${at}`,
  prompt: `p${at >> 1}`,
  reward: at / 8,
  ...more,
});
const rowsOf = (step: number, rows = 8, more: object = {}) =>
  Array.from({ length: rows }, (_, at) => row(step, at, more));
/** As verl has them: the step may be told by the file's name alone. */
const verlRows = (step: number, more: object = {}) =>
  Array.from({ length: 8 }, (_, at) => ({ input: `q${at >> 2}`, output: `${step} ${at}`, score: at % 2, ...more }));

describe('copies of files', () => {
  it('are passed over with a note: a compressed twin, a second name, a backup', async () => {
    const twin = await readAll(data('09-gz-beside'));
    expect(twin.steps).toMatchObject([{ step: 1, rows: 32 }]);
    expect(twin.notes).toEqual(['passed over, being copies of other files: 1.jsonl.gz (of 1.jsonl)']);
    const text = jsonLines(verlRows(1, { step: 1 }));
    const path = folder({ '1.jsonl': text, '1 (copy).jsonl': text, '1.bak.jsonl': text, 'deep/1.jsonl': text });
    const { steps, notes } = await readAll(path);
    expect(steps.map(({ rows, files }) => [rows, files.length])).toEqual([
      [8, 1],
      [8, 1],
    ]);
    expect(notes).toEqual([
      'passed over, being copies of other files: 1 (copy).jsonl (of 1.jsonl), 1.bak.jsonl (of 1.jsonl)',
    ]);
  });

  it('are found where nothing says a step, in Parquet and in CSV', async () => {
    const text = jsonLines(verlRows(1));
    expect(await readAll(folder({ 'a.jsonl': text, 'b.jsonl': text, 'c.jsonl.gz': gzipSync(text) }))).toMatchObject({
      steps: [{ rows: 8 }, { rows: 8 }],
    });
    const rows = rowsOf(3);
    const columnData = Object.keys(rows[0] as object).map((name) => ({
      name,
      data: rows.map((one) => one[name as 'step']),
    }));
    const table = new Uint8Array(parquetWriteBuffer({ columnData }));
    expect(await readAll(folder({ 'a.parquet': table, 'b.parquet': table }))).toMatchObject({
      steps: [{ step: 3, rows: 8 }],
      notes: [expect.stringContaining('b.parquet (of a.parquet)')],
    });
    const csv = `step,group,output\n${rows.map((one) => `${one.step},${one.group},${one.output}\n`).join('')}`;
    const files = { 'a.csv': csv, 'a.csv.gz': gzipSync(csv), 'b.csv': csv };
    const columns = { step: 'step', group: 'group', output: 'output' };
    expect((await readAll(folder(files), { columns })).steps).toMatchObject([{ step: 3, rows: 8 }]);
  });

  it('are told of a file that is being packed or has grown since, and not of one with other content', async () => {
    const text = jsonLines(rowsOf(1));
    const half = gzipSync(text, { level: 0 }).subarray(0, 300);
    expect(await readAll(folder({ 'a.jsonl': text, 'a.jsonl.gz': half }))).toMatchObject({ steps: [{ rows: 8 }] });
    const grown = text + jsonLines(rowsOf(2));
    expect(await readAll(folder({ 'a.jsonl': grown, 'a.jsonl.gz': gzipSync(text) }))).toMatchObject({
      steps: [{ rows: 8 }, { rows: 8 }],
    });
    expect(await readAll(folder({ 'a.jsonl': text, 'a.jsonl.gz': gzipSync(grown) }))).toMatchObject({
      steps: [{ rows: 8 }, { rows: 8 }],
      notes: ['passed over, being copies of other files: a.jsonl (of a.jsonl.gz)'],
    });
    const other = jsonLines(rowsOf(1, 8, { reward: 0 }));
    expect(await readAll(folder({ 'a.jsonl': text, 'a.jsonl.gz': gzipSync(other) }))).toMatchObject({
      steps: [{ rows: 16 }],
      notes: [],
    });
  });

  it('are not equal files of several steps, runs or splits', async () => {
    const text = jsonLines(verlRows(1));
    const path = folder({ 'a/1.jsonl': text, 'a/2.jsonl': text, 'b/1.jsonl': text });
    const { steps, notes } = await readAll(path);
    expect(steps.map(({ step, rows }) => [step, rows])).toEqual([
      [1, 8],
      [2, 8],
      [1, 8],
    ]);
    expect(notes).toEqual([]);
  });
});

describe('a stretch that was logged again', () => {
  const lines = gunzipSync(readFileSync(data('04-resume-in-one-file.jsonl.gz'))).toString();

  it('counts the last time, and is said', async () => {
    const path = join(folder({ 'log.jsonl': lines }), 'log.jsonl');
    const { steps, notes } = await readAll(path);
    expect(steps.map(({ step, rows }) => [step, rows])).toEqual(Array.from({ length: 12 }, (_, at) => [at + 1, 24]));
    expect(notes).toEqual([
      `${path}: steps fall from 10 to 6 at line 241: logged again after a restart; of a step that came twice the last time counts`,
    ]);
    const all = lines.trim().split('\n');
    const again = steps.find(({ step }) => step === 6);
    expect(again?.output).toEqual(all.slice(240, 264).map((line) => JSON.parse(line).output));
    expect((await readAll(data('04-resume-in-one-file.jsonl.gz'))).steps).toMatchObject(
      steps.map(({ rows }) => ({ rows })),
    );
  });

  it('is found in Parquet and CSV, per run, after several restarts, and where the first time was cut short', async () => {
    const order = [1, 2, 3, 4, 2, 3, 4, 5, 6, 4, 5, 6, 7];
    const rows = order.flatMap((step, pass) => rowsOf(step, pass === 3 ? 4 : 8, { output: `pass ${pass}`, run: 'r' }));
    const columnData = Object.keys(rows[0] as object).map((name) => ({
      name,
      data: rows.map((one) => one[name as 'step']),
    }));
    const files = {
      'a.jsonl': rows,
      'b.parquet': new Uint8Array(parquetWriteBuffer({ columnData })),
      'c.csv': `step,run,group,output\n${rows.map((one) => `${one.step},r,${one.group},${one.output}\n`).join('')}`,
    };
    for (const [name, content] of Object.entries(files)) {
      const columns = { step: 'step', run: 'run', group: 'group', output: 'output' };
      const { steps, notes } = await readAll(folder({ [name]: content }), name === 'c.csv' ? { columns } : {});
      expect(steps.map(({ step, rows: had, output }) => [step, had, new Set(output)])).toEqual(
        [0, 4, 5, 9, 10, 11, 12].map((pass, at) => [at + 1, 8, new Set([`pass ${pass}`])]),
      );
      expect(notes.map((note) => /from \d+ to \d+ at \w+ \d+/.exec(note)?.[0])).toEqual([
        `from 4 to 2 at ${name === 'a.jsonl' ? 'line' : 'row'} 29`,
        `from 6 to 4 at ${name === 'a.jsonl' ? 'line' : 'row'} 69`,
      ]);
    }
  });

  it('is neither late rows of a stream nor rank files', async () => {
    const order = [1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6, 5, 6];
    const stream = order.flatMap((step, at) => rowsOf(step, at % 3 === 0 ? 2 : 4, { output: `${at}` }));
    const { steps, notes } = await readAll(folder({ 'a.jsonl': stream }));
    expect(steps.reduce((sum, { rows }) => sum + rows, 0)).toBe(stream.length);
    expect(notes).toEqual([]);
    const rank = (number: number) => [1, 2, 3].flatMap((step) => rowsOf(step, 4, { output: `r${number}` }));
    const ranks = await readAll(folder({ 'rank_0.jsonl': rank(0), 'rank_1.jsonl': rank(1) }));
    expect(ranks).toMatchObject({ steps: [{ rows: 8 }, { rows: 8 }, { rows: 8 }], notes: [] });
    const late = [1, 2, 3].flatMap((step) => [...rowsOf(step, 10), ...(step > 1 ? rowsOf(step - 1, 2) : [])]);
    expect(await readAll(folder({ 'a.jsonl': late }))).toMatchObject({
      steps: [{ rows: 12 }, { rows: 12 }, { rows: 10 }],
      notes: [],
    });
  });

  it('keeps every row of a step once, of streams all, whatever their order', () => {
    const partsOf = (segments: readonly (readonly [step: number, lines: number])[]): LogPart[] => {
      const parts = new Map<number, LogPart & { ranges: LogPart['ranges'][number][] }>();
      let line = 0;
      for (const [step, lines] of segments) {
        const part = parts.get(step) ?? { step, run: undefined, ranges: [] };
        part.ranges.push({ begin: line, end: line + lines, line, lines });
        parts.set(step, part);
        line += lines;
      }
      return [...parts.values()];
    };
    const resumed = fc.record({
      last: fc.integer({ min: 4, max: 30 }),
      back: fc.integer({ min: 2, max: 20 }),
      sizes: fc.array(fc.integer({ min: 20, max: 26 }), { minLength: 100, maxLength: 100 }),
    });
    fc.assert(
      fc.property(resumed, ({ last, back, sizes }) => {
        const to = Math.max(1, last - back + 1);
        const order = [
          ...Array.from({ length: last }, (_, at) => at + 1),
          ...Array.from({ length: back + 3 }, (_, at) => to + at),
        ];
        const { parts, restarts } = lastTimes(
          partsOf(order.map((step, at) => [step, sizes[at % 100] as number])),
          () => true,
        );
        expect(restarts).toMatchObject([{ from: last, to }]);
        for (const { step = 0, ranges } of parts) {
          expect(ranges).toHaveLength(1);
          expect(ranges[0]?.lines).toBe(sizes[order.lastIndexOf(step) % 100]);
        }
      }),
    );
    // Rows of 20 a step, of which up to half come late, among those of the steps after it.
    const stream = fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 4, maxLength: 40 });
    fc.assert(
      fc.property(stream, (late) => {
        const segments = late.flatMap((rows, at) => [
          [at + 1, 20 - rows] as const,
          ...(at > 0 ? [[at, late[at - 1] as number] as const] : []),
        ]);
        expect(lastTimes(partsOf(segments), () => true).restarts).toEqual([]);
      }),
    );
  });
});

/** A table of TRL: rows that say their generation, under a step's number. */
function trlTable(steps: readonly (readonly [step: number, generation: number])[], more: object = {}): Uint8Array {
  const rows = steps.flatMap(([step, generation]) =>
    Array.from({ length: 8 }, (_, at) => ({
      step,
      prompt: `p${at >> 2}`,
      completion: `${generation} ${at}`,
      correct: at % 2,
      timestamp: step + 0.5,
      task: `t${at >> 2}`,
      advantage: (at % 2) - 0.5,
      ...more,
    })),
  );
  const columnData = Object.keys(rows[0] as object).map((name) => {
    const isWhole = name === 'step';
    const data = rows.map((one) => (isWhole ? BigInt(one.step) : one[name as 'task']));
    const type = isWhole ? 'INT64' : typeof data[0] === 'number' ? 'DOUBLE' : 'STRING';
    return { name, data, type: type as 'STRING' };
  });
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}

describe('steps that are the step before once more', () => {
  const name = (step: number) => `run/completions/completions_${String(step).padStart(5, '0')}.parquet`;
  const generations = [1, 1, 2, 3, 3, 3, 4];

  it('are left out with a note in formats that are written by the clock', async () => {
    const files = generations.map((generation, at) => [name(at + 1), trlTable([[at + 1, generation]])] as const);
    const { steps, notes } = await readAll(folder(Object.fromEntries(files)));
    expect(steps.map(({ step }) => step)).toEqual([1, 3, 4, 7]);
    expect(notes).toEqual([
      'run run: 3 of 7 steps whose rows are those of the step before, step 2 first, are left out: TRL writes its last generation again at each logging step',
    ]);
    const one = trlTable(generations.map((generation, at) => [at + 1, generation]));
    expect((await readAll(folder({ 'all.parquet': one }))).steps.map(({ step }) => step)).toEqual([1, 3, 4, 7]);
  });

  it('are none where a column or the order differs, nor in other formats', async () => {
    const first = trlTable([[1, 1]]);
    for (const other of [{ task: 'x' }, { advantage: 0.1 }, { correct: Number.NaN }]) {
      const { steps, notes } = await readAll(folder({ [name(1)]: first, [name(2)]: trlTable([[2, 1]], other) }));
      expect(steps).toHaveLength(2);
      expect(notes).toEqual([]);
    }
    const greedy = [1, 2, 3].map((step) => [`${step}.jsonl`, jsonLines(verlRows(0, { step }))] as const);
    expect((await readAll(folder(Object.fromEntries(greedy)))).steps).toHaveLength(3);
    expect((await readAll(folder({ [name(1)]: first, [name(2)]: 'PAR1 no table' }))).steps).toHaveLength(1);
  });
});

describe('rows that were logged twice', () => {
  it('count once where every row of the step comes equally often, with a note', async () => {
    const step = await readOne(data('10-lines-twice.jsonl'));
    expect(step).toMatchObject({ rows: 32, repeats: 32 });
    expect(step.notes).toContain(
      'every row of the step is there 2 times: it was logged 2 times, and each row counts once',
    );
    const rows = rowsOf(1);
    const thrice = await readOne(folder({ 'a.jsonl': [...rows, ...rows, ...[...rows].reverse()] }));
    expect(thrice).toMatchObject({ rows: 8, repeats: 16, output: rows.map(({ output }) => output) });
    const columnData = Object.keys(rows[0] as object).map((name) => ({
      name,
      data: [...rows, ...rows].map((one) => one[name as 'step']),
    }));
    const table = new Uint8Array(parquetWriteBuffer({ columnData }));
    expect(await readOne(folder({ 'a.parquet': table }))).toMatchObject({ rows: 8, repeats: 8 });
    // Texts beyond those that are held as strings, over two files.
    const long = rows.map((one) => ({ ...one, output: one.output.repeat(100) }));
    const files = { 'a.jsonl': long, 'b.jsonl': [...long].reverse() };
    expect(await readOne(folder(files))).toMatchObject({ rows: 8, repeats: 8 });
  });

  it('are not single rows that equal another, nor prompts that have one thing to say', async () => {
    const equal = [...rowsOf(1), row(1, 0), row(1, 3)];
    expect(await readOne(folder({ 'a.jsonl': equal }))).toMatchObject({ rows: 10, repeats: 0 });
    const single = rowsOf(1).map((one) => ({ ...one, output: `${one.group}`, reward: 1 }));
    expect(await readOne(folder({ 'a.jsonl': single }))).toMatchObject({ rows: 8, repeats: 0 });
    const uneven = [...rowsOf(1), ...rowsOf(1), row(1, 0)];
    expect(await readOne(folder({ 'a.jsonl': uneven }))).toMatchObject({ rows: 17, repeats: 0 });
  });

  it('are told by their ids where they have some, and then by nothing else', async () => {
    const ids = [...rowsOf(1), ...rowsOf(1)].map((one, at) => ({ ...one, sample: at }));
    expect(await readOne(folder({ 'a.jsonl': ids }))).toMatchObject({ rows: 16, repeats: 0 });
    const same = ids.map((one, at) => ({ ...one, sample: at % 8 }));
    expect(await readOne(folder({ 'a.jsonl': same }))).toMatchObject({ rows: 8, repeats: 8 });
  });

  it('are groups of which each is a line, too', async () => {
    const trajectory = (content: string, reward: number) => ({
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content },
      ],
      reward,
    });
    const lines = ['a', 'b'].map((name) => ({ trajectories: [trajectory(`${name}1`, 0), trajectory(`${name}2`, 1)] }));
    const step = await readOne(folder({ 'trajectories/train/1.jsonl': [...lines, ...lines] }));
    expect(step).toMatchObject({ rows: 4, repeats: 4, groupIds: ['1', '2'] });
  });
});
