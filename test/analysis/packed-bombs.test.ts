// Bombs of each kind, small and large, through the built command: each is refused in words that say what came and what
// to do, within what --max-memory says and some 200 MB.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { brotliCompressSync, constants, deflateRawSync, gzipSync } from 'node:zlib';
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import { readRollouts } from '../../src/logs/rollouts/read-rollouts.js';
import { packed, ran } from '../support/bombs.js';
import { buildIfStale } from '../support/built-command.js';
import { container, fileOf } from '../support/logs-files.js';
import { npyScalar, npyTensor, zipOf } from '../support/numpy-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const root = temporaryDirectory();
beforeAll(buildIfStale, 180_000);

const MEBIBYTE = 2 ** 20;
/** Over --max-memory. */
const MOST_MORE = 200;

const COLUMNS = ['--columns', 'step=step,group=group,output=output,reward=reward'];
const HEAD = '{"step":1,"group":1,"reward":1,"output":';
const ROW = `${HEAD}"a"}\n`;
const HEADING = 'step,group,output,reward\n';

function written(name: string, bytes: Uint8Array): string {
  const path = join(root, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
  return path;
}

function gzipped(name: string, begin: string, piece: string, bytes: number, end = ''): Promise<string> {
  const times = Math.ceil(MEBIBYTE / piece.length);
  return packed(join(root, name), begin, piece.repeat(times), Math.ceil(bytes / (times * piece.length)), end);
}

/** What refuses a file within so many MB. */
async function refused(path: string, megabytes: number, words: string | RegExp, ...options: string[]): Promise<void> {
  const run = await ran('analyze', '--quiet', '--max-memory', `${megabytes}MB`, ...options, path);
  expect(run.said).toMatch(words);
  expect(run.status).toBe(1);
  expect(run.megabytes).toBeLessThan(megabytes + MOST_MORE);
}

const MEMORY = 64;

describe.each([
  ['small', 4 * MEBIBYTE],
  ['large', 96 * MEBIBYTE],
] as const)('a %s log of', (size, bytes) => {
  const name = (ending: string): string => `${size}.${ending}`;
  it.each([
    ['lines that hold a brace', 'brace', ROW, '{\n', 'bytes of lines in a row that are blank or too short for a row'],
    ['empty objects', 'empty', ROW, '{}\n', 'bytes of lines in a row that are blank or too short for a row'],
    ['lines of one space', 'space', ROW, ' \n', 'bytes of lines in a row that are blank or too short for a row'],
    ['lines of other fields', 'other', ROW, '{"a":1}\n', 'say no step, though others do: the file is damaged'],
    ['rows of one step', 'rows', '', ROW, 'a step in it has more than 62500 rows, for which --max-memory 64000000'],
    [
      'rows of two steps in turn',
      'turns',
      '',
      `${ROW}${ROW.replace('"step":1', '"step":2')}`.repeat(2),
      'its rows change their step so often',
    ],
  ] as const)(
    '%s is refused in words',
    async (_, kind, begin, piece, words) => {
      // What is no more than a few thousand rows is no bomb.
      const path = await gzipped(
        name(`${kind}.jsonl.gz`),
        begin,
        piece,
        Math.max(bytes, kind === 'turns' ? 2 ** 24 : 0),
      );
      await refused(path, MEMORY, words);
    },
    120_000,
  );

  it.each([
    ['blanks', ' \n', 'lines are no rollouts: the file is damaged'],
    ['blanks of all kinds', '\n \n\r\n\t\n', 'lines are no rollouts: the file is damaged'],
    ['rows of a comma', ',\n', 'lines are no rollouts: the file is damaged'],
    ['commas', ',', /line 3 has (more than 16384 fields, the most|\d+ bytes, more than the \d+ of the longest line)/],
    ['rows', '1,1,a,1\n', 'a step in it has more than 62500 rows'],
  ] as const)(
    'CSV that holds %s is refused in words',
    async (kind, piece, words) => {
      const path = await gzipped(name(`${kind}.csv.gz`), `${HEADING}1,1,a,1\n`, piece, bytes);
      await refused(path, MEMORY, words, ...COLUMNS);
    },
    120_000,
  );
});

describe('a long line of', () => {
  it.each([
    ['token ids', '"tokens":[0', ',0'],
    ['objects', '"output":[{}', ',{}'],
    ['lists in lists', '"output":[', '['],
  ])(
    '%s is refused in words',
    async (kind, begin, piece) => {
      const path = await gzipped(
        `${kind}.jsonl.gz`,
        `${ROW}{"step":1,"group":1,"reward":1,${begin}`,
        piece,
        14 * MEBIBYTE,
        ']}\n',
      );
      await refused(
        path,
        MEMORY,
        'as lists and objects, --max-memory has room for 64000000: give more, or write a line a rollout',
      );
    },
    120_000,
  );

  it('CSV whose heading has columns without end is refused in words', async () => {
    const path = await gzipped('heading.csv.gz', HEADING.trim(), ',a', 8 * MEBIBYTE, '\n1,1,a,1\n');
    await refused(path, MEMORY, 'line 1 has more than 16384 fields', ...COLUMNS);
  }, 60_000);
});

type Codec = 'SNAPPY' | 'GZIP' | 'BROTLI' | 'ZSTD' | 'LZ4_RAW' | 'LZ4';

/** LZ4 without matches but of bytes that repeat; zstd as blocks that repeat a byte. */
const COMPRESSORS: Readonly<Partial<Record<Codec, (page: Uint8Array) => Uint8Array>>> = {
  GZIP: (page) => gzipSync(page, { level: 1 }),
  BROTLI: (page) => brotliCompressSync(page, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  LZ4_RAW: lz4Of,
  LZ4: lz4Of,
  ZSTD: zstdOf,
};

/** Lengths of runs of one byte. */
function runsOf(page: Uint8Array): { byte: number; length: number }[] {
  const runs: { byte: number; length: number }[] = [];
  for (const byte of page) {
    const last = runs.at(-1);
    if (last?.byte === byte) last.length++;
    else runs.push({ byte, length: 1 });
  }
  return runs;
}

function lz4Of(page: Uint8Array): Uint8Array {
  const bytes: number[] = [];
  const sized = (size: number): number[] => {
    if (size < 15) return [];
    return [...new Array<number>(Math.floor((size - 15) / 255)).fill(255), (size - 15) % 255];
  };
  let literals: number[] = [];
  for (const { byte, length } of runsOf(page)) {
    literals.push(byte);
    if (length < 16) literals.push(...new Array<number>(length - 1).fill(byte));
    else {
      const match = length - 1 - 4 - 5;
      bytes.push(
        (Math.min(15, literals.length) << 4) | Math.min(15, match),
        ...sized(literals.length),
        ...literals,
        1,
        0,
      );
      for (const one of sized(match)) bytes.push(one);
      // A block ends with literals.
      literals = new Array<number>(5).fill(byte);
    }
  }
  bytes.push(Math.min(15, literals.length) << 4, ...sized(literals.length), ...literals);
  return Uint8Array.from(bytes);
}

function zstdOf(page: Uint8Array): Uint8Array {
  const blocks: [length: number, kind: number, bytes: number[]][] = [];
  for (const { byte, length } of runsOf(page)) {
    for (let left = length; left > 0; left -= 2 ** 17) blocks.push([Math.min(left, 2 ** 17), 1, [byte]]);
  }
  const frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
  for (const [at, [length, kind, bytes]] of blocks.entries()) {
    const head = (length << 3) | (kind << 1) | Number(at === blocks.length - 1);
    frame.push(head & 0xff, (head >> 8) & 0xff, head >> 16, ...bytes);
  }
  return Uint8Array.from(frame);
}

function parquetOf(columns: ColumnSource[], codec: Codec): Uint8Array {
  return new Uint8Array(
    parquetWriteBuffer({
      columnData: columns,
      codec: codec as 'SNAPPY',
      compressors: COMPRESSORS,
      statistics: false,
    }),
  );
}

/** `rows` of one step, each with a text of so many bytes. */
function tableOf(rows: number, text: number): ColumnSource[] {
  const same = <T>(value: T): T[] => new Array<T>(rows).fill(value);
  return [
    { name: 'step', data: same(1), type: 'INT32' },
    { name: 'group', data: same(1), type: 'INT32' },
    { name: 'output', data: same('x'.repeat(text)), type: 'STRING', encoding: 'PLAIN' },
    { name: 'reward', data: same(1), type: 'DOUBLE' },
  ];
}

describe('Parquet', () => {
  it.each(
    (['SNAPPY', 'GZIP', 'BROTLI', 'ZSTD', 'LZ4_RAW', 'LZ4'] as const).flatMap(
      (codec) =>
        [
          [codec, 'small', 2 * MEBIBYTE, 4],
          [codec, 'large', 40 * MEBIBYTE, MEMORY],
        ] as const,
    ),
  )(
    'of pages of %s, %s, that unpack to more than there is room for is refused in words',
    async (codec, size, text, memory) => {
      const path = written(`${codec}.${size}.parquet`, parquetOf(tableOf(2, text), codec));
      await refused(path, memory, `--max-memory has room for ${memory}000000: give more, or write smaller row groups`);
    },
    120_000,
  );

  it('of a small page is read, whatever packs it', async () => {
    for (const codec of ['ZSTD', 'LZ4_RAW', 'LZ4'] as const) {
      const path = written(`${codec}.read.parquet`, parquetOf(tableOf(2, 1000), codec));
      for await (const { output } of readRollouts(path)) expect(output).toEqual(['x'.repeat(1000), 'x'.repeat(1000)]);
    }
  });

  it('of more rows of a step than there is room for is refused in words', async () => {
    const path = written('rows.parquet', parquetOf(tableOf(200_000, 1), 'SNAPPY'));
    await refused(path, MEMORY, 'a step in it has more than 62500 rows');
  }, 60_000);

  it('of another step in each row is refused in words', async () => {
    const steps = Int32Array.from({ length: 200_000 }, (_, row) => row);
    const [, ...others] = tableOf(steps.length, 1);
    const path = written(
      'steps.parquet',
      parquetOf([{ name: 'step', data: steps, type: 'INT32' }, ...others], 'SNAPPY'),
    );
    await refused(path, MEMORY, 'its rows change their step so often');
  }, 60_000);
});

describe('a step file', () => {
  const zeros = (tokens: number) => ({
    cross_logprobs: { dtype: 'F32', shape: [1, 4, tokens], data: new Float32Array(4 * tokens) },
    lengths: { dtype: 'I32', shape: [4], data: new Int32Array(4) },
    group: { dtype: 'I32', shape: [4], data: new Int32Array(4) },
  });
  const words = '--max-memory has room for 8000000: give more, or write fewer rows and prompts a step';

  it.each([
    ['small', MEBIBYTE],
    ['large', 16 * MEBIBYTE],
  ])(
    'as .npz, %s, whose scores unpack to more than there is room for is refused in words',
    async (size, tokens) => {
      const arrays = Object.entries(zeros(tokens)).map(([name, tensor]) => [`${name}.npy`, npyTensor(tensor)] as const);
      const members = Object.fromEntries([...arrays, ['step.npy', npyScalar(1)]]);
      await refused(written(`${size}.npz`, zipOf(members, { deflate: true })), 8, words);
    },
    60_000,
  );

  it.each([
    ['small', MEBIBYTE],
    ['large', 16 * MEBIBYTE],
  ])(
    'as .gz, %s, whose scores unpack to more than there is room for is refused in words',
    async (size, tokens) => {
      await refused(written(`${size}.safetensors.gz`, gzipSync(fileOf(zeros(tokens)), { level: 1 })), 8, words);
    },
    60_000,
  );

  it('of rows and prompts whose sums are far larger than the file is refused in words', async () => {
    const count = 20_000;
    const ids = Int32Array.from({ length: count }, (_, at) => at);
    const bytes = fileOf({
      cross_logprobs: { dtype: 'F32', shape: [count, count, 0], data: new Float32Array(0) },
      lengths: { dtype: 'I32', shape: [count], data: new Int32Array(count) },
      group: { dtype: 'I32', shape: [count], data: ids },
    });
    await refused(written('pairs.safetensors', bytes), 8, words);
  }, 60_000);

  it('of thousands of packed members that are no tensors holds no decompressor for each', async () => {
    const text = npyScalar('x'.repeat(1000));
    expect(deflateRawSync(text).length).toBeLessThan(1000);
    const members = Object.fromEntries(Array.from({ length: 1500 }, (_, at) => [`m${at}.npy`, text]));
    const path = written('members.npz', zipOf(members, { deflate: true }));
    await refused(path, 8, 'none of its arrays is a tensor of a step');
  }, 120_000);

  it.each(['safetensors', 'safetensors.gz'])(
    '%s whose header names tensors without end is refused in words',
    async (ending) => {
      const entries = Array.from(
        { length: 700_000 },
        (_, at) => `"t${at}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`,
      );
      const bytes = container(`{${entries.join(',')}}`);
      const path = written(`header.${ending}`, ending.endsWith('gz') ? gzipSync(bytes, { level: 1 }) : bytes);
      await refused(path, 64, 'more than 131072 tensors and metadata: a step has some twenty');
    },
    120_000,
  );
});

describe('maxMemory', () => {
  it('bounds what readRollouts unpacks', async () => {
    const path = written('options.parquet', parquetOf(tableOf(2, MEBIBYTE), 'GZIP'));
    const read = async (maxMemory?: number): Promise<number> => {
      let rows = 0;
      for await (const step of readRollouts(path, { maxMemory })) rows += step.rows;
      return rows;
    };
    expect(await read()).toBe(2);
    await expect(read(2 ** 20)).rejects.toThrow('--max-memory has room for 1048576: give more');
    await expect(read(0)).rejects.toThrow('maxMemory');
  });

  it('bounds what plan-scores and score read', async () => {
    const rows = Array.from({ length: 2000 }, (_, row) => `{"group":${row % 50},"length":3}`).join('\n');
    const lines = written('rows.jsonl.gz', gzipSync(Buffer.from(rows)));
    const plan = (...words: string[]) => ran('plan-scores', '--negatives', '3', '--quiet', ...words, lines);
    expect((await plan()).status).toBe(0);
    const { status, said } = await plan('--max-memory', '100kB');
    expect([status, said]).toEqual([
      1,
      expect.stringContaining('unpacks to more than --max-memory has room for (2000 rows take'),
    ]);
    const list = `[${'{},'.repeat(MEBIBYTE)}{}]`;
    const nested = written('nested.jsonl', Buffer.from(`{"group":1,"length":${list}}\n{"group":1,"length":3}\n`));
    const bomb = await ran('plan-scores', '--negatives', '3', '--max-memory', '64MB', nested);
    expect([bomb.status, bomb.said]).toEqual([
      1,
      expect.stringContaining('--max-memory has room for 64000000: give more'),
    ]);
    const help = await ran('score', '--help');
    expect(help.said).toContain('--max-memory <bytes>');
  }, 60_000);
});
