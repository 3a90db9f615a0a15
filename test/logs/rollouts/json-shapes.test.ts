// Logs whose rows are no lines: lists, values over several lines, several samples in a row, zstd.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { FileError } from '../../../src/index.js';
import { jsonShape, ValueLines } from '../../../src/logs/rollouts/json-lines/json-values.js';
import { LineFile } from '../../../src/logs/rollouts/json-lines/line-blocks.js';
import { buildIfStale } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { jsonLines, putLogs, readAll, readOne } from './rollout-logs.js';

// Threads run what is in dist/.
beforeAll(buildIfStale, 180_000);

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `log${count++}`), files);

const rows = Array.from({ length: 24 }, (_, at) => ({
  step: 1 + Math.floor(at / 12),
  group: at >> 2,
  prompt: `p${at >> 2}, [{"`,
  output: `said "${at}",\n]}\\`,
  reward: at % 3,
  more: [{ deep: [at, '}'] }],
}));

/** As `Buffer.from` of a frame of raw blocks, or of one byte repeated: what is in it is known without a packer. */
function zstdFrame(blocks: readonly (Buffer | { byte: number; times: number })[], windowByte = 0x38): Buffer {
  const parts: Buffer[] = [Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, windowByte)];
  for (const [at, block] of blocks.entries()) {
    const isRaw = Buffer.isBuffer(block);
    const said = ((isRaw ? block.length : block.times) << 3) | (isRaw ? 0 : 2) | Number(at === blocks.length - 1);
    parts.push(Buffer.of(said & 255, (said >> 8) & 255, said >> 16), isRaw ? block : Buffer.of(block.byte));
  }
  return Buffer.concat(parts);
}

describe('JSON that is no lines', () => {
  const steps = async (name: string, text: string | Buffer) => {
    const { steps: read, errors } = await readAll(folder({ [name]: text }), { threads: 1 });
    expect(errors).toEqual([]);
    return read.map(({ step, rows: all, output, reward, groupIds }) => ({ step, all, output, reward, groupIds }));
  };

  it('has the rows of the same values a line each, however they stand', async () => {
    const lines = await steps('x.jsonl', jsonLines(rows));
    expect(lines.map(({ all }) => all)).toEqual([12, 12]);
    const pretty = rows.map((row) => JSON.stringify(row, null, 2));
    for (const text of [
      JSON.stringify(rows),
      JSON.stringify(rows, null, 4),
      `\ufeff \n${JSON.stringify(rows)}\n`,
      `[\n${rows.map((row) => JSON.stringify(row)).join(',\n')}\n]`,
      `${pretty.join('\n')}\n`,
      pretty.join('\r\n'),
    ]) {
      expect(await steps('x.json', text)).toEqual(lines);
      expect(await steps('x.jsonl.gz', gzipSync(text))).toEqual(lines);
    }
    expect(await steps('x.json', jsonLines(rows))).toEqual(lines);
  });

  it('is cut into the same values wherever reading stops, and keeps the place of every byte', () => {
    const json = fc.array(
      fc.jsonValue().map((value) => ({ value: JSON.parse(JSON.stringify(value)) })),
      { minLength: 1, maxLength: 6 },
    );
    const check = fc.property(
      json,
      fc.constantFrom(0, 1, 2),
      fc.array(fc.nat(40), { maxLength: 9 }),
      (all, indent, cuts) => {
        for (const [shape, text] of [
          ['list', JSON.stringify(all, null, indent)],
          ['values', all.map((one) => JSON.stringify(one, null, indent)).join('\n')],
        ] as const) {
          const bytes = Buffer.from(text);
          const lines = new ValueLines(shape);
          let at = 0;
          for (const cut of [...cuts, bytes.length]) {
            lines.take(bytes.subarray(at, at + cut));
            at += cut;
          }
          const found = bytes
            .toString()
            .split('\n')
            .filter((line) => line.trim() !== '');
          expect(found.map((line) => JSON.parse(line))).toEqual(all);
        }
      },
    );
    fc.assert(check, { numRuns: 300 });
  });

  it('is told by the first line from lines of which one is damaged', () => {
    const shape = (text: string) => jsonShape(Buffer.from(text));
    expect(shape('{"a": 1}\n{"a": 2}\n')).toBe('lines');
    expect(shape('{"a": 1')).toBe('lines');
    expect(shape('{"a": {"b": 1}\n{"a": 2}\n')).toBe('lines');
    expect(shape('{"a": "x\n{"a": 2}\n')).toBe('lines');
    expect(shape('{\n  "a": 1\n}')).toBe('values');
    expect(shape('{"a": [\n{"b": 1}]}')).toBe('lines');
    expect(shape('{"a": [\n  {"b": 1}]}')).toBe('values');
    expect(shape('\n\n [{"a": 1}')).toBe('list');
    expect(shape('')).toBe('lines');
  });

  it('goes on behind a damaged value, which is named with its number', async () => {
    const text = JSON.stringify(rows.slice(0, 4), null, 1).replace('"said \\"1\\"', '"said \n"1\\"');
    const { steps: read, errors } = await readAll(folder({ 'x.json': text }), { threads: 1 });
    expect(read[0]?.rows).toBe(3);
    expect(errors[0]?.message).toContain('line 2: ');
    const cut = await readOne(folder({ 'x.json': JSON.stringify(rows.slice(0, 4)).slice(0, -20) }));
    expect(cut.rows).toBe(3);
  });

  it('of several values in one line is refused with what to do', async () => {
    const text = rows.map((row) => JSON.stringify(row)).join('');
    const { errors } = await readAll(folder({ 'x.jsonl': text }), { threads: 1 });
    expect(errors[0]?.message).toMatch(/line 1: holds several JSON values one after the other .*jq -c \. FILE/);
  });
});

describe('several samples in a row', () => {
  const columns = { group: 'id', prompt: 'question', output: 'code', reward: 'score', sample: 'uid' } as const;
  const row = { id: 7, question: 'q', code: ['a', 'b', 'c'], score: [true, 0.5, null], uid: 'u' };
  const read = (one: object, more = {}) =>
    readAll(folder({ 'x.jsonl': [one, { ...row, id: 8, uid: 'v' }] }), {
      columns: { ...columns, ...more },
      threads: 1,
    });

  it('are a row each: lists of their length go along, and what is no list repeats', async () => {
    const { steps, errors } = await read(row);
    expect(errors).toEqual([]);
    const [step] = steps;
    expect(step?.output).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
    expect([...(step?.reward ?? [])]).toEqual([1, 0.5, Number.NaN, 1, 0.5, Number.NaN]);
    expect([...(step?.group ?? [])]).toEqual([0, 0, 0, 1, 1, 1]);
    expect(step?.prompt).toEqual(Array(6).fill('q'));
    expect(step?.sample).toEqual(['u/0', 'u/1', 'u/2', 'v/0', 'v/1', 'v/2']);
  });

  it('may be chats, of a prompt that is one', async () => {
    const chat = (said: string) => [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: said },
    ];
    const prompt = [
      { role: 'system', content: 's' },
      { role: 'user', content: 'u' },
    ];
    const { steps, errors } = await read({ ...row, question: prompt, code: [chat('1'), chat('2')], score: [0, 1] });
    expect(errors).toEqual([]);
    expect(steps[0]?.output?.slice(0, 2)).toEqual(['1', '2']);
    expect(steps[0]?.prompt?.[0]).toBe('system\ns\nuser\nu');
    const single = await read({ ...row, code: chat('1'), score: 1 });
    expect(single.steps[0]?.output?.[0]).toBe('1');
  });

  it('may be lists of token ids, with their log-probs', async () => {
    const lists = { id: 7, tokens: [[1, 2], [3]], lp: [[-1, -2], [-3]], score: [0, 1] };
    const { steps, errors } = await readAll(folder({ 'x.jsonl': [lists] }), {
      columns: { group: 'id', tokens: 'tokens', logprobs: 'lp', reward: 'score' },
      threads: 1,
    });
    expect(errors).toEqual([]);
    expect(steps[0]?.tokens).toEqual([Int32Array.of(1, 2), Int32Array.of(3)]);
    expect(steps[0]?.logprobs).toEqual([Float64Array.of(-1, -2), Float64Array.of(-3)]);
  });

  it('beside a list of another length are refused with the names of both', async () => {
    const { errors } = await read({ ...row, score: [1, 0] });
    expect(errors[0]?.message).toContain('line 1: score is a list of 2, beside code of 3 responses');
    const flat = await read({ ...row, lp: [1, 2] }, { logprobs: 'lp' });
    expect(flat.errors[0]?.message).toContain('lp is a list of 2, beside code of 3 responses');
  });

  it('that are none add no row', async () => {
    expect((await read({ ...row, code: [], score: [] })).steps[0]?.rows).toBe(3);
  });
});

describe('logs of zstd', () => {
  const text = jsonLines(rows);
  const raw = (from: number, to: number) => Buffer.from(text).subarray(from, to);

  it('are read as they are unpacked, of several frames, with others to skip', async () => {
    const skipped = Buffer.concat([Buffer.of(0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0), Buffer.alloc(5)]);
    const frames = [zstdFrame([raw(0, 700), raw(700, 701)]), skipped, zstdFrame([raw(701, 1 << 20)]), skipped];
    const plain = await readAll(folder({ 'x.jsonl': text }));
    for (const name of ['x.jsonl.zst', 'x.json.zst']) {
      const packed = await readAll(folder({ [name]: Buffer.concat(frames) }));
      expect(packed.errors).toEqual([]);
      expect(packed.steps.map(({ output }) => output)).toEqual(plain.steps.map(({ output }) => output));
    }
    const csv = await readAll(folder({ 'x.csv.zst': zstdFrame([Buffer.from('s,o,r\n1,a,2\n1,b,3\n')]) }), {
      columns: { step: 's', output: 'o', reward: 'r' },
    });
    expect(csv.steps[0]?.output).toEqual(['a', 'b']);
  });

  it('that are being written end where they do', async () => {
    const whole = zstdFrame([raw(0, 700), raw(700, 1 << 20)]);
    for (const cut of [whole.length - 1, 720, 710]) {
      const { steps, errors } = await readAll(folder({ 'x.jsonl.zst': whole.subarray(0, cut) }));
      expect(errors).toEqual([]);
      expect(steps[0]?.rows).toBe(text.slice(0, 700).split('\n').length - 1);
    }
  });

  it('that are damaged, or made to fill memory or time, are refused', async () => {
    const problem = async (packed: Buffer) => {
      const { errors } = await readAll(folder({ 'x.jsonl.zst': packed }), { threads: 1 });
      expect(errors[0]).toBeInstanceOf(FileError);
      return errors[0]?.message;
    };
    expect(await problem(Buffer.from('no zstd at all, but bytes'))).toContain('the zstd data are damaged');
    expect(await problem(zstdFrame([raw(0, 700)], 0xa0))).toContain('a window of 1073741824 bytes');
    const bomb = Array.from({ length: 400 }, () => ({ byte: 0x20, times: 2 ** 17 }));
    expect(await problem(zstdFrame([raw(0, 700), ...bomb]))).toMatch(/blank or too short/);
    const crumbs = Array.from({ length: 5000 }, () => ({ byte: 0x41, times: 1 }));
    expect(await problem(zstdFrame(crumbs))).toContain('blocks unpack to');
    expect(await problem(zstdFrame([{ byte: 0x41, times: 2 ** 18 }]))).toContain('a block of');
  });

  it('are what zstd packs, and unpack to the same bytes', async () => {
    // By zstd -9, of a text that Python wrote: its digest is Python's.
    const file = await LineFile.open('test/inputs/rollouts.jsonl.zst');
    const hash = createHash('sha256');
    for await (const piece of file.pieces()) hash.update(piece);
    await file.close();
    expect(hash.digest('hex')).toBe('bb946a02c09b62ed85dd8efd5be5a500c40c26139490c367a74e1df2576e3465');
    const { steps, errors } = await readAll('test/inputs/rollouts.jsonl.zst');
    expect(errors).toEqual([]);
    expect(steps.map(({ step, rows: all }) => [step, all])).toEqual([1, 2, 3, 4, 5].map((step) => [step, 500]));
    expect(steps[4]?.output?.[499]).toBe(`answer ${(2499 * 2499) % 97} of 2499`);
  });
});
