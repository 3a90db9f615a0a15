// How logs are found and read, whatever the trainer: which reader, bad lines, cut and compressed files, steps over
// files and files over steps, threads.
import { appendFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import { type RolloutStep, readRollouts } from '../../../src/exports/logs.js';
import { ArgumentError, FileError } from '../../../src/index.js';
import { JsonFields } from '../../../src/logs/rollouts/json-lines/json-fields.js';
import { LineFile } from '../../../src/logs/rollouts/json-lines/line-blocks.js';
import { ParsePool } from '../../../src/logs/rollouts/json-lines/parse-pool.js';
import { unpackPages } from '../../../src/logs/rollouts/parquet/parquet-pages.js';
import { buildIfStale } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { jsonLines, putLogs, readAll, readOne } from './rollout-logs.js';

// Threads run what is in dist/.
beforeAll(buildIfStale, 180_000);

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `log${count++}`), files);

const row = (step: number, at: number, more: object = {}) => ({
  step,
  group: at >> 1,
  output: `<think>${step} ${at}</think>a`,
  prompt: `p${at >> 1}`,
  reward: at / 8,
  ...more,
});

/** What does not depend on where rows stand. */
const content = ({ step, output, reward, group, groupIds }: RolloutStep) => ({
  step,
  rows: (output ?? []).map((text, at) => [text, reward?.[at], groupIds[group?.[at] as number]]),
});

describe('finding logs', () => {
  it('passes over what no reader knows in a folder, and names a folder without logs', async () => {
    const path = folder({
      '1.jsonl': [{ input: 'a', output: 'b', score: 1 }],
      'metrics.jsonl': [{ loss: 1 }],
      'data.pt': 'x',
      '.x.jsonl': 'x',
    });
    const { steps, errors, notes } = await readAll(path);
    expect(steps).toHaveLength(1);
    expect(errors).toEqual([]);
    expect(notes).toEqual([
      'passed over, of no format that is read: metrics.jsonl (loss)',
      expect.stringMatching(/data\.pt: a pickle runs code when it is loaded/),
    ]);
    expect((await readAll(folder({ 'a.jsonl': [{ loss: 1 }] }))).errors[0]?.message).toContain(
      'holds no rollouts that a reader knows; of a.jsonl: no reader knows it: its columns are loss',
    );
    expect((await readAll(folder({ 'a.txt': 'x' }))).errors[0]?.message).toContain(
      'name the folder that the trainer writes its rollouts to',
    );
    expect((await readAll(folder({ 'a.pkl': 'x' }))).errors[0]?.message).toContain('collapsar export');
    expect((await readAll(join(path, 'data.pt'))).errors[0]?.message).toContain('collapsar export');
  });

  it('asks which format is meant where several fit, and takes the one that is named', async () => {
    const line = { ...row(1, 0), example_id: 4, completion: 'c' };
    const path = join(folder({ 'x.jsonl': [line] }), 'x.jsonl');
    expect((await readAll(path)).errors[0]?.message).toMatch(
      /are those of rollouts and verifiers: say which it is \(--format rollouts\)/,
    );
    expect(await readOne(path, { format: 'rollouts' })).toMatchObject({ format: 'rollouts', groupIds: ['0'] });
    expect(await readOne(path, { format: 'verifiers' })).toMatchObject({ format: 'verifiers', groupIds: ['4'] });
  });

  it('takes globs and links, and a file once', async () => {
    const path = folder({ 'a/1.jsonl': [row(1, 0)], 'b/2.jsonl': [row(2, 0)] });
    symlinkSync(join(path, 'a'), join(path, 'link'));
    const { steps } = await readAll([`${path}/*/1.jsonl`, path, join(path, 'a', '1.jsonl')]);
    expect(steps.map(({ step }) => step)).toEqual([1, 2]);
    expect((await readAll(join(path, 'nowhere'))).errors).toHaveLength(1);
    expect((await readAll('s4://x/y')).errors).toHaveLength(1);
  });

  it.each([
    [{ format: 'verI' }, 'options.format: got "verI", expected one of areal, art'],
    [{ columns: { stepp: 'x' } as never }, 'options.columns.stepp: is no column of a rollout'],
    [{ columns: { step: 'x' }, format: 'verl' }, 'options.columns: go without a format'],
    [{ reasoning: ['<a>'] as never }, "options.reasoning: expected 'all', or a pair of tags"],
    [{ groupSize: 0 }, 'options.groupSize: got 0, expected an integer from 1 on'],
    [{ threads: 1.5 }, 'options.threads: got 1.5'],
    [{ tagTokens: [1] as never }, 'options.tagTokens: expected the ids of the two tags'],
    [{ onEror: () => 1 } as never, 'options.onEror: unknown option'],
  ])('refuses the options %j', async (options, message) => {
    const reading = readAll(root, options);
    await expect(reading).rejects.toThrow(ArgumentError);
    await expect(reading).rejects.toThrow(message);
  });
});

describe('lines that cannot be used', () => {
  const good = [row(1, 0), row(1, 1), row(1, 2), row(1, 3)].map((one) => JSON.stringify(one));

  it('are named by file, place and line, and the others are read', async () => {
    const lines = [
      good[0],
      '{"step": 1, "output": tru}',
      '',
      good[1],
      '{"step": "one"}',
      '[1, 2]',
      good[2],
      '{"step": 1, "output": 1',
      good[3],
      '{"step": 1, "tokens": [1, -2]} x',
    ];
    const path = join(folder({ 'x.jsonl': lines as string[] }), 'x.jsonl');
    const { steps, errors } = await readAll(path);
    expect(content(steps[0] as RolloutStep).rows).toHaveLength(4);
    expect(steps[0]?.badRows).toBe(5);
    const offsets = [1, 4, 5, 7, 9].map((at) => jsonLines(lines.slice(0, at)).length);
    expect(errors.map(({ message }) => message.slice(path.length))).toEqual([
      `, offset ${offsets[0]}: line 2: no JSON value (column 23): "tru"`,
      `, offset ${offsets[1]}: line 5: step is the text "one", expected a number`,
      expect.stringMatching(`, offset ${offsets[2]}: line 6: column 1 is the text "\\[1, 2\\].*expected a JSON object`),
      `, offset ${offsets[3]}: line 8: the line ends where "," or "}" was expected`,
      expect.stringMatching(`, offset ${offsets[4]}: line 10: column 32 is the text "x", expected the end of the line`),
    ]);
    await expect(async () => {
      for await (const _ of readRollouts(path));
    }).rejects.toThrow(FileError);
  });

  it('in a flood are named by their first and counted', async () => {
    const path = folder({ 'x.jsonl': [good[0] as string, ...Array<string>(1000).fill('{"step": 1, "reward": "?"}')] });
    const { steps, errors } = await readAll(path);
    expect(steps[0]?.badRows).toBe(1000);
    expect(errors).toHaveLength(21);
    expect(errors.at(-1)?.message).toContain('and 980 more lines');
  });

  it('that are no UTF-8 are named with the byte', async () => {
    const bad = Buffer.from(`${good[0]}\n${good[1]?.replace('think', 'th\u00e9')}\n${good[2]}\n`, 'latin1');
    const { steps, errors } = await readAll(folder({ 'x.jsonl': bad }));
    const at = (good[1] as string).indexOf('think') + 3;
    expect(errors[0]?.message).toContain(`line 2: is not UTF-8: byte ${at} of the line is 0xe9`);
    expect(steps[0]?.rows).toBe(2);
    const wide = await readAll(folder({ 'x.jsonl': Buffer.from(`\ufeff${good[0]}\n`, 'utf16le') }));
    expect(wide.errors[0]?.message).toContain('is UTF-16, expected UTF-8');
    expect((await readOne(folder({ 'x.jsonl': `\ufeff${good[0]}\n` }))).rows).toBe(1);
  });

  it('at the end of a log that is being written are no error', async () => {
    const path = folder({ 'x.jsonl': `${good[0]}\n${good[1]}\n${good[2]?.slice(0, 30)}` });
    const step = await readOne(path);
    expect(step).toMatchObject({ rows: 2, badRows: 0 });
    expect(step.notes).toEqual(['the last line is not complete: it is being written, or was cut, and is left out']);
    appendFileSync(join(path, 'x.jsonl'), `${good[2]?.slice(30)}\n${good[3]}`);
    expect(await readOne(path)).toMatchObject({ rows: 4, notes: [] });
  });

  it('that say no step, or none that is whole, are named', async () => {
    const { steps, errors } = await readAll(
      folder({ 'x.jsonl': [row(3, 0), { ...row(3, 1), step: undefined }, { ...row(3, 2), step: 3.5 }, row(3, 3)] }),
    );
    expect(errors.map(({ message }) => message.replace(/^.*?: /, ''))).toEqual([
      'line 2: has no step',
      'line 3: step is 3.5, expected a whole number of 0 or more',
    ]);
    expect(steps).toMatchObject([{ step: 3, rows: 2, badRows: 2 }]);
  });
});

describe('steps and files', () => {
  const rows = [3, 1, 2].flatMap((step) => Array.from({ length: 8 }, (_, at) => row(step, at)));
  const expected = [1, 2, 3].map((step) => ({
    step,
    rows: Array.from({ length: 8 }, (_, at) => [`<think>${step} ${at}</think>a`, at / 8, String(at >> 1)]),
  }));
  const sorted = (steps: RolloutStep[]) =>
    steps
      .map(content)
      .map((one) => ({ ...one, rows: one.rows.sort(([a], [b]) => String(a).localeCompare(String(b))) }));

  it('are the same however rows are cut into files and ordered', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(rows, { minLength: rows.length }),
        fc.array(fc.nat(rows.length), { maxLength: 3 }),
        fc.boolean(),
        async (order, cuts, packed) => {
          const at = [0, ...cuts.sort((a, b) => a - b), order.length];
          const files = at.slice(1).map((end, index) => {
            const text = jsonLines(order.slice(at[index], end));
            return packed ? [`r_${index}.jsonl.gz`, gzipSync(text)] : [`r_${index}.jsonl`, text];
          });
          const { steps, errors } = await readAll(folder(Object.fromEntries(files)));
          expect(errors).toEqual([]);
          expect(sorted(steps)).toEqual(expected);
        },
      ),
      { numRuns: 25 },
    );
  });

  it('are the same on threads as on one, with lines numbered through', async () => {
    const lines = Array.from({ length: 6000 }, (_, at) =>
      JSON.stringify(row(at < 3000 ? 1 : 2, at, { output: `${at} ${'é'.repeat(400)}` })),
    );
    lines[4999] = '{';
    const path = folder({ 'x.jsonl': lines });
    expect(new ParsePool(3).threads).toBe(3);
    const [one, several] = [await readAll(path, { threads: 1 }), await readAll(path, { threads: 3 })];
    expect(several.steps).toEqual(one.steps);
    expect(one.steps.map(({ rows: count }) => count)).toEqual([3000, 2999]);
    expect(several.errors.map(({ message }) => message)).toEqual(one.errors.map(({ message }) => message));
    expect(one.errors[0]?.message).toContain('line 5000: ');
  });

  it('counts a sample once that was logged twice', async () => {
    const line = (sample: string, output: string) => row(1, 0, { sample, output });
    const step = await readOne(
      folder({ 'a.jsonl': [line('a', 'x'), line('b', 'x')], 'b.jsonl': [line('a', 'x'), line('b', 'y')] }),
    );
    expect(step).toMatchObject({ rows: 3, repeats: 1, output: ['x', 'x', 'y'] });
    expect(step.notes).toEqual([
      '1 row repeat a sample that was logged before: each is counted once',
      '1 row have a sample id that another row has, with another response',
    ]);
  });

  it('tells groups by runs of a length where nothing else does, and refuses a length that does not fit', async () => {
    const lines = Array.from({ length: 6 }, (_, at) => ({ step: 1, output: `${at}`, reward: at }));
    const path = folder({ 'x.jsonl': lines });
    expect((await readOne(path)).absent.group).toContain('--group-size');
    const step = await readOne(path, { groupSize: 3 });
    expect(step).toMatchObject({ groupSource: 'run length', groupIds: ['0', '1'] });
    expect([...(step.group ?? [])]).toEqual([0, 0, 0, 1, 1, 1]);
    expect((await readAll(path, { groupSize: 4 })).errors[0]?.message).toContain(
      '6 rows cannot be split into groups of 4',
    );
  });

  it('splits reasoning by other tags, or not at all', async () => {
    const path = folder({ 'x.jsonl': [row(1, 0, { output: '[R] a [/R] <answer> b </answer>' })] });
    expect(await readOne(path, { reasoning: ['[R]', '[/R]'] })).toMatchObject({ reasoning: [' a '], action: ['b'] });
    const whole = await readOne(path, { reasoning: 'all' });
    expect(whole.reasoning).toEqual(whole.output);
    expect(whole.action).toBeUndefined();
  });

  it('stops at the signal', async () => {
    const stop = new AbortController();
    const path = folder(Object.fromEntries([1, 2, 3].map((step) => [`${step}.jsonl`, [row(step, 0)]])));
    const read = async () => {
      for await (const { step } of readRollouts(path, { signal: stop.signal }))
        if (step === 1) stop.abort(new Error('enough'));
    };
    await expect(read()).rejects.toThrow('enough');
  });
});

describe('mapped columns', () => {
  const columns = { step: 'iter', group: 'task', output: 'text', reward: 'r', tokens: 'ids' } as const;
  const table = [
    { iter: 1, task: 'a', text: 'x, "y"\nz', r: 0.5, ids: [1, 2] },
    { iter: 2, task: 'b', text: 'é', r: null, ids: null },
    { iter: 1, task: 'a', text: '', r: 2, ids: [] },
  ];
  const check = ({ steps, errors }: Awaited<ReturnType<typeof readAll>>) => {
    expect(errors).toEqual([]);
    expect(steps.map(({ step, groupIds }) => [step, groupIds])).toEqual([
      [1, ['a']],
      [2, ['b']],
    ]);
    expect(steps.map(({ output }) => output?.[0])).toEqual(['x, "y"\nz', 'é']);
    expect(steps.map(({ reward }) => [...(reward ?? [])])).toEqual([[0.5, 2], []]);
    expect(steps[0]?.tokens?.[0]).toEqual(Int32Array.of(1, 2));
  };

  it('are read from JSON lines, Parquet and CSV', async () => {
    check(await readAll(folder({ 'x.jsonl': table }), { columns }));
    const quoted = (value: unknown) =>
      value === null ? '' : `"${String(Array.isArray(value) ? JSON.stringify(value) : value).replaceAll('"', '""')}"`;
    const csv = `\ufeffiter,task,text,r,ids\r\n${table.map((one) => Object.values(one).map(quoted).join(',')).join('\r\n')}\r\n`;
    check(await readAll(folder({ 'x.csv': csv }), { columns }));
    check(await readAll(folder({ 'x.csv.gz': gzipSync(csv) }), { columns }));
    const data = (name: keyof (typeof table)[number]) => table.map((one) => one[name]);
    const parquet = parquetWriteBuffer({
      columnData: [
        { name: 'iter', data: data('iter') as number[], type: 'INT32' },
        { name: 'task', data: data('task') as string[], type: 'STRING' },
        { name: 'text', data: data('text') as string[], type: 'STRING' },
        { name: 'r', data: data('r') as number[], type: 'DOUBLE' },
        { name: 'ids', data: data('ids') as unknown[], type: 'JSON' },
      ],
    });
    check(await readAll(folder({ 'x.parquet': new Uint8Array(parquet) }), { columns }));
  });

  it('name the row of a CSV that is none, or no UTF-8', async () => {
    const text = (...lines: string[]) => `iter,text\n${lines.join('\n')}\n`;
    const broken = await readAll(folder({ 'x.csv': text('1,a', '1,b,c') }), {
      columns: { step: 'iter', output: 'text' },
    });
    expect(broken.errors[0]?.message).toMatch(/x\.csv: row 2: has 3 fields, the heading 2$/);
    expect(broken.steps).toMatchObject([{ step: 1, rows: 1, badRows: 1 }]);
    const open = await readAll(folder({ 'x.csv': text('1,a', '1,"b') }), { columns: { step: 'iter', output: 'text' } });
    expect(open.errors[0]?.message).toMatch(/x\.csv: is no CSV: Quote Not Closed/);
    const latin = await readAll(folder({ 'x.csv': Buffer.from(text('1,a', '1,é'), 'latin1') }), {
      columns: { step: 'iter', output: 'text' },
    });
    expect(latin.errors[0]?.message).toMatch(/x\.csv: line 3 is not UTF-8: byte 3 of the line is 0xe9/);
    const odd = await readAll(folder({ 'x.csv': text('1,a', 'one,b') }), { columns: { step: 'iter', output: 'text' } });
    expect(odd.errors[0]?.message).toMatch(/row 2: iter is the text "one", expected a number/);
  });
});

describe('blocks of lines', () => {
  it('hold whole lines, whatever the size of a block, plain or packed', async () => {
    const text = Array.from({ length: 50 }, (_, at) => 'x'.repeat((at * 7) % 40)).join('\n');
    for (const [name, bytes] of [
      ['a.jsonl', Buffer.from(text)],
      ['a.jsonl.gz', Buffer.concat([gzipSync(text.slice(0, 300)), gzipSync(text.slice(300))])],
    ] as const) {
      const path = join(folder({ [name]: bytes }), name);
      for (const blockBytes of [1, 2, 7, 64, 4096]) {
        const file = await LineFile.open(path);
        for (const [begin, end] of [
          [0, Infinity],
          [3, 200],
          [200, 500],
        ] as const) {
          let at: number = begin;
          for await (const block of file.blocks(begin, end, undefined, blockBytes)) {
            expect(block.offset).toBe(at);
            expect(block.bytes.toString()).toBe(text.slice(at, at + block.bytes.length));
            at += block.bytes.length;
            expect(block.isLast || block.bytes.at(-1) === 0x0a).toBe(true);
          }
          expect(at).toBe(Math.min(end, text.length));
        }
        await file.close();
      }
    }
  });

  it('of a packed log that is being written end where it does', async () => {
    const lines = Array.from({ length: 300 }, (_, at) => row(1, at));
    const packed = gzipSync(jsonLines(lines));
    const step = await readOne(folder({ 'x.jsonl.gz': packed.subarray(0, packed.length - 20) }));
    expect(step.rows).toBeGreaterThan(100);
    const flipped = Buffer.from(packed);
    flipped.fill(0xff, 40, 60);
    const { errors } = await readAll(folder({ 'x.jsonl.gz': flipped }));
    expect(errors[0]?.message).toContain('the compressed data are damaged');
  });
});

/** Integers that float64 does not hold one by one, which are given as their digits. */
const isTooLong = (one: unknown): boolean =>
  Number.isInteger(one) && !Number.isSafeInteger(one) && /^-?\d+$/.test(String(one));

describe('fields of a line', () => {
  it('are ids of 64 bits to the last digit, in objects and lists as well, or refused, and never rounded', async () => {
    const [one, other] = ['9007199254740992', '9007199254740993'];
    const chat = '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]';
    const lines = (of: (id: string) => string): string => [one, other].map((id) => `${of(id)}\n`).join('');
    const logs = {
      'a.jsonl': lines((id) => `{"step": 1, "group": ${id}, "output": "x", "reward": 1}`),
      'val_rollouts_1.jsonl': lines(
        (id) => `{"custom_id": ${id}, "messages": ${chat}, "metadata": {"group_id": ${id}, "x": NaN}}`,
      ),
      'b.csv': `step,group,output\n${lines((id) => `1,${id},x`)}`,
    };
    for (const [name, text] of Object.entries(logs)) {
      const columns = name.endsWith('.csv') ? { step: 'step', group: 'group', output: 'output' } : undefined;
      const step = await readOne(join(folder({ [name]: text }), name), { columns });
      expect(step.groupIds, name).toEqual([one, other]);
    }
    const table = (data: unknown[] | BigInt64Array, type: 'INT64' | 'DOUBLE'): Uint8Array =>
      new Uint8Array(
        parquetWriteBuffer({
          columnData: [
            { name: 'step', data: [1, 1], type: 'INT32' },
            { name: 'group', data: data as unknown[], type },
            { name: 'output', data: ['x', 'y'], type: 'STRING' },
          ],
        }),
      );
    const whole = folder({ 'c.parquet': table([BigInt(one), BigInt(other)], 'INT64') });
    expect((await readOne(whole)).groupIds).toEqual([one, other]);
    // What a column of floats holds has lost its last digits before.
    const { errors } = await readAll(folder({ 'c.parquet': table([2 ** 53, 2 ** 53 + 2], 'DOUBLE') }));
    expect(errors[0]?.message).toContain('group is 9007199254740992, expected an id below 2^53');
    const missing = await readOne(folder({ 'c.parquet': table([1, Number.NaN], 'DOUBLE') }));
    expect(missing).toMatchObject({ groupSource: undefined, rows: 2 });
  });

  const spaced = (value: unknown, space: string): string => JSON.stringify(value, null, space).replaceAll('\n', ' ');

  it('are those of JSON.parse', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue(), { noNullPrototype: true }),
        fc.constantFrom('', '\t', ' '),
        (object, space) => {
          const bytes = Buffer.from(`xx${spaced(object, space)}yy`);
          const names = [...Object.keys(object), 'not there'];
          const fields = new JsonFields(names).read(bytes, 2, bytes.length - 2);
          for (const name of names) {
            const json = JSON.stringify(Object.hasOwn(object, name) ? object[name] : null);
            const value = JSON.parse(json, (_, one: unknown) => (isTooLong(one) ? String(one) : one)) as unknown;
            expect(fields.value(name)).toEqual(value ?? undefined);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('give lists of token ids as JSON.parse does, and refuse what is none', () => {
    fc.assert(
      fc.property(fc.array(fc.nat()), fc.constantFrom('', ' '), (ids, space) => {
        const bytes = Buffer.from(spaced({ a: 'x', ids }, space));
        expect(new JsonFields(['ids']).read(bytes, 0, bytes.length).tokens('ids')).toEqual(Int32Array.from(ids));
      }),
    );
    for (const ids of ['[-1]', '[1.5]', '[2147483648]', '[null]', '["x"]', '{}', '7', '[01]', '[1,]']) {
      const bytes = Buffer.from(`{"ids": ${ids}}`);
      expect(() => new JsonFields(['ids']).read(bytes, 0, bytes.length).tokens('ids'), ids).toThrow(/ids|JSON/);
    }
  });
});

describe('pages of Parquet', () => {
  const look = (bytes: number[], values: number, maxDefinition = 0) =>
    unpackPages({ bytes: Uint8Array.from(bytes), values, maxRepetition: 0, maxDefinition });
  /**
   * PageHeader { type 0, unpacks to and has `bytes.length`, data_page_header { num_values, encoding } } and the page.
   */
  const page = (values: number[], encoding: number, bytes: number[]) => [
    ...[
      0x15,
      0x00,
      0x15,
      2 * bytes.length,
      0x15,
      2 * bytes.length,
      0x2c,
      0x15,
      ...values,
      0x15,
      2 * encoding,
      0x00,
      0x00,
    ],
    ...bytes,
  ];

  it('that promise more than the column has are refused before memory is taken', () => {
    const one = page([2], 0, [1, 2]);
    expect([...look(one, 1)]).toEqual([[one.length - 2, Uint8Array.of(1, 2)]]);
    expect(() => look([...one, ...one], 1)).toThrow('pages of 2 values, the column has 1');
    expect(() => look(one.slice(0, -1), 1)).toThrow('a page of 2 bytes, 1 are left');
    expect(() => look(one.slice(0, 6), 1)).toThrow('cut');
    expect(() => look(page([0xfe, 0xff, 0xff, 0xff, 0x0f], 0, [1, 2]), 2 ** 31)).toThrow('a page of 2147483647 values');
  });

  it('whose runs say more values than there are, are refused', () => {
    // A dictionary's indices of one bit: a run of 8 packed, or one value 2^30 times.
    expect(() => look(page([16], 8, [1, 0x03, 0xaa]), 8)).not.toThrow();
    expect(() => look(page([16], 8, [1, 0xfe, 0xff, 0xff, 0xff, 0x07, 1]), 8)).toThrow(
      'a run of 1073741823 values, 8 are left',
    );
    expect(() => look(page([16], 8, [0, 0xff, 0xff, 0xff, 0xff, 0x07]), 8)).toThrow(/a run of \d+ values, 8 are left/);
    // Levels, with their length before them.
    expect(() => look(page([16], 0, [2, 0, 0, 0, 0x10, 1, 7]), 8, 1)).not.toThrow();
    expect(() => look(page([16], 0, [6, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x07, 1]), 8, 1)).toThrow('8 are left');
    expect(() => look(page([16], 0, [99, 0, 0, 0, 1]), 8, 1)).toThrow('a page whose levels are cut');
    // Behind levels that are too few, where the decoder reads on; and runs of RLE that are no booleans'.
    const endless = [0xfe, 0xff, 0xff, 0xff, 0x07, 1];
    expect(() => look(page([16], 0, [2, 0, 0, 0, 0x02, 1, ...endless]), 8, 1)).toThrow('7 are left');
    expect(() => look(page([16], 3, [1, ...endless]), 8)).toThrow('8 are left');
  });

  it.each(['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI', 'ZSTD', 'LZ4_RAW'] as const)(
    'packed as %s are read',
    async (codec) => {
      const path = join('test', 'golden', 'parquet', `${codec.toLowerCase()}.parquet`);
      const step = await readOne(path);
      expect(step).toMatchObject({ format: 'rollouts', rows: 6, groupIds: ['0', '1', '2'] });
      expect(step.output).toEqual(['a a a a', 'b', undefined, 'a a a a', 'é', '']);
      expect(step.tokens?.map((list) => list && [...list])).toEqual([[1, 2, 3], [], undefined, [1, 2, 3], [4], [5]]);
      expect([...(step.reward ?? [])]).toEqual([0.5, Number.NaN, Number.NaN, -1, Infinity, 0]);
    },
  );

  it('of damaged files are refused with a FileError', async () => {
    const bytes = Buffer.from(
      parquetWriteBuffer({
        columnData: [
          { name: 'step', data: [1, 1, 1], type: 'INT32' },
          { name: 'output', data: ['a', 'b', 'c'], type: 'STRING' },
          { name: 'reward', data: [1, 2, 3], type: 'DOUBLE' },
        ],
      }),
    );
    expect((await readOne(folder({ 'x.parquet': bytes }))).rows).toBe(3);
    const outcomes = new Set<string>();
    for (let at = 0; at < bytes.length; at++) {
      for (const value of [0, 0x7f, 0xff]) {
        const changed = Buffer.from(bytes);
        changed[at] = value;
        const path = join(root, 'damaged.parquet');
        writeFileSync(path, changed);
        const { errors } = await readAll(path);
        outcomes.add(errors.length === 0 ? 'read' : 'refused');
      }
    }
    expect(outcomes).toEqual(new Set(['read', 'refused']));
  });
});
