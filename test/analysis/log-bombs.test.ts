// A few bytes that unpack to gigabytes are refused in words, within what --max-memory says and some 200 MB.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askServer, TooLongAnswer } from '../../src/checks/servers/bounded-answer.js';
import { LineFile } from '../../src/logs/rollouts/json-lines/line-blocks.js';
import { checkLz4, mostUnpacked, unpackerOf } from '../../src/logs/rollouts/parquet/page-codecs.js';
import { readRollouts } from '../../src/logs/rollouts/read-rollouts.js';
import { packed, ran } from '../support/bombs.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const root = temporaryDirectory();
const repository = join(import.meta.dirname, '..', '..');
beforeAll(buildIfStale, 180_000);

const MOST_MEGABYTES = 300 + 200;
const MEBIBYTE = 2 ** 20;

/** What `collapsar analyze` says, and the most memory that it took. */
function analyzed(path: string, ...options: string[]): ReturnType<typeof ran> {
  return ran('analyze', '--quiet', ...options, path);
}

/** A frame of zstd: a beginning, then blocks of 128 KiB of one byte, four bytes each. */
async function packedByteByByte(path: string, begin: string, byte: string, blocks: number): Promise<string> {
  const header = (bytes: number, kind: number) => Buffer.from([(bytes << 3) | kind, bytes >> 5, bytes >> 13]);
  const block = Buffer.concat([header(2 ** 17, 2), Buffer.from(byte)]);
  const frame = [Buffer.from('28b52ffd0038', 'hex'), header(begin.length, 0), Buffer.from(begin)];
  writeFileSync(path, Buffer.concat([...frame, ...Array.from({ length: blocks }, () => block)]));
  return path;
}

const CSV = ['--columns', 'step=step,group=group,output=output,reward=reward'];
const HEAD = '{"step":1,"group":1,"reward":1,"output":';

describe('a log that unpacks to far more than it is', () => {
  it.each([
    [
      'blank lines',
      () => packed(join(root, 'blank.jsonl.gz'), '', '\n'.repeat(MEBIBYTE), 256),
      [],
      'bytes of lines in a row that are blank',
    ],
    [
      'blank lines after a row',
      () => packed(join(root, 'after.jsonl.gz'), `${HEAD}"a"}\n`, '\n'.repeat(MEBIBYTE), 256),
      [],
      'bytes of lines in a row that are blank',
    ],
    [
      'one line',
      () => packed(join(root, 'line.jsonl.gz'), `${HEAD}"`, 'x'.repeat(MEBIBYTE), 700, '"}\n'),
      ['--format', 'rollouts'],
      'of the longest line that is read: give more memory (--max-memory)',
    ],
    [
      'one line of zstd',
      () => packedByteByByte(join(root, 'line.jsonl.zst'), `${HEAD}"`, 'x', 5600),
      ['--format', 'rollouts'],
      'of the longest line that is read: give more memory (--max-memory)',
    ],
    [
      'one list of JSON in others',
      () => packed(join(root, 'lists.json.gz'), `[{"step":1,"group":1,"output":"a"},`, '['.repeat(MEBIBYTE), 256),
      ['--format', 'rollouts'],
      'of the longest line that is read: give more memory (--max-memory)',
    ],
    [
      'one line of CSV',
      () => packed(join(root, 'line.csv.gz'), 'step,group,output,reward\n1,1,"', 'x'.repeat(MEBIBYTE), 700, '",1\n'),
      CSV,
      'of the longest line of CSV that is read',
    ],
    [
      'a row group of Parquet',
      async () => join(repository, 'test', 'golden', 'parquet', 'bomb.brotli.parquet'),
      [],
      '--max-memory has room for 300000000: give more, or write smaller row groups',
    ],
  ] as const)(
    'as %s is refused in words',
    async (_, make, options, words) => {
      const { status, said, megabytes } = await analyzed(await make(), ...options);
      expect(said).toContain(words);
      expect(status).toBe(1);
      expect(megabytes).toBeLessThan(MOST_MEGABYTES);
    },
    240_000,
  );

  it('is refused by filter likewise', async () => {
    const path = join(repository, 'test', 'golden', 'parquet', 'bomb.brotli.parquet');
    const { status, said, megabytes } = await ran('filter', path);
    expect(said).toContain('--max-memory has room for 300000000');
    expect(status).toBe(1);
    expect(megabytes).toBeLessThan(MOST_MEGABYTES);
  }, 60_000);

  it('as zstd is known by its frames before it is unpacked', () => {
    // A frame without its size: a block of 100 bytes as they are, then one of 2^17 − 1 times the same byte, the last.
    const block = (bytes: number, kind: number, last: number): number[] => {
      const head = (bytes << 3) | (kind << 1) | last;
      return [head & 0xff, (head >> 8) & 0xff, head >> 16];
    };
    const run = 2 ** 17 - 1;
    const frame = [
      0x28,
      0xb5,
      0x2f,
      0xfd,
      0,
      0x58,
      ...block(100, 0, 0),
      ...new Array(100).fill(7),
      ...block(run, 1, 1),
      9,
    ];
    expect(mostUnpacked(Uint8Array.from(frame))).toBe(100 + run);
    expect(mostUnpacked(Uint8Array.from([...frame, ...frame]))).toBe(2 * (100 + run));
    expect(() => mostUnpacked(Uint8Array.from(frame.slice(0, 8)))).toThrow('cut');
  });
});

describe('a page of LZ4', () => {
  /** A literal, then the same byte again: a match of 4 and what follows the token. */
  const repeated = (times: number): Uint8Array => {
    const more = times - 1 - 4 - 15 - 1;
    const sizes = [...new Array(Math.floor(more / 255)).fill(255), more % 255];
    return Uint8Array.from([0x1f, 7, 1, 0, ...sizes, 0x10, 7]);
  };

  it('is walked through before memory is taken for it', () => {
    expect(() => checkLz4(repeated(100_000), 100_000)).not.toThrow();
    expect(() => checkLz4(new Uint8Array(0), 0)).not.toThrow();
    expect(() => checkLz4(repeated(100_000), 1000)).toThrow('a page of 1000 bytes whose LZ4 unpacks to 99999 or more');
    expect(() => checkLz4(repeated(100_000), 200_000)).toThrow('a page of 200000 bytes');
    for (const cut of [1, 3, 5, 300]) {
      expect(() => checkLz4(repeated(100_000).subarray(0, cut), 100_000)).toThrow(/LZ4/);
    }
  });

  it('is unpacked with and without the frames of Hadoop', async () => {
    const [raw, framed] = [await unpackerOf('LZ4_RAW'), await unpackerOf('LZ4')];
    const expected = Buffer.alloc(5000, 7);
    const block = repeated(5000);
    const head = Buffer.alloc(8);
    head.writeUInt32BE(5000, 0);
    head.writeUInt32BE(block.length, 4);
    const frame = Buffer.concat([head, block]);
    expect(Buffer.from(raw?.(block, 5000) ?? []).equals(expected)).toBe(true);
    expect(Buffer.from(framed?.(block, 5000) ?? []).equals(expected)).toBe(true);
    expect(Buffer.from(framed?.(Buffer.concat([frame, frame]), 10_000) ?? []).equals(Buffer.alloc(10_000, 7))).toBe(
      true,
    );
    expect(raw?.(Uint8Array.of(0), 0)).toHaveLength(0);
    // Lengths of frames that are negative as signed integers lead a decoder back to where it was, for ever.
    const backwards = Buffer.from([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect(() => framed?.(backwards, 100)).toThrow(/LZ4/);
  });
});

describe('the longest line', () => {
  it('is read at the limit, and stepped over a byte above it', async () => {
    const [longest, short] = [2 ** 24, Buffer.from('{}\n')];
    mkdirSync(root, { recursive: true });
    for (const above of [0, 1]) {
      const path = join(root, `limit-${above}.jsonl`);
      writeFileSync(path, Buffer.concat([Buffer.alloc(longest + above, 'x'), Buffer.from('\n'), short]));
      const file = await LineFile.open(path, undefined, 1);
      const found: [number, number | undefined][] = [];
      for await (const { bytes, tooLong } of file.blocks(0, Number.POSITIVE_INFINITY))
        found.push([bytes.length, tooLong]);
      await file.close();
      const skipped = found.map(([, tooLong]) => tooLong).filter((bytes) => bytes !== undefined);
      expect(skipped).toEqual(above === 0 ? [] : [longest + 2]);
      expect(found.reduce((sum, [bytes]) => sum + bytes, 0)).toBe(
        above === 0 ? longest + 1 + short.length : short.length,
      );
    }
  });
});

describe('a line that is longer than is read', () => {
  it('is named also where it is the last of its file', async () => {
    mkdirSync(root, { recursive: true });
    const path = join(root, 'last-line.jsonl');
    const row = `${HEAD}"a"}\n`;
    writeFileSync(path, `${row}${row}${HEAD}"${'x'.repeat(2 ** 24)}"}\n`);
    const problems: string[] = [];
    let rows = 0;
    const onError = ({ message }: Error) => problems.push(message);
    for await (const step of readRollouts(path, { maxMemory: 2 ** 20, onError })) rows += step.rows;
    expect(rows).toBe(2);
    expect(problems).toEqual([
      expect.stringMatching(/line 3: has \d+ bytes, more than the 16777216 of the longest line/),
    ]);
  });
});

describe('answers of servers', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = createServer((request, response) => {
      if (request.url === '/moved') return response.writeHead(302, { location: '/short' }).end();
      if (request.url === '/short') return response.end('{"a": 1}');
      const spaces = Buffer.alloc(MEBIBYTE, 0x20);
      const more = (): void => {
        if (!response.destroyed) response.write(spaces, more);
      };
      more();
      return undefined;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  it('are read to a limit, and no further', async () => {
    expect(await askServer(`${url}/short`, {}, 100)).toEqual({ ok: true, status: 200, text: '{"a": 1}' });
    await expect(askServer(`${url}/endless`, {}, 10 * MEBIBYTE)).rejects.toThrow(TooLongAnswer);
    await expect(askServer(`${url}/short`, {}, 7)).rejects.toThrow('more than the 7 bytes');
  });

  it('are those of the server that was asked: redirects are not followed', async () => {
    const { ok, status, text } = await askServer(`${url}/moved`, {}, 100);
    expect([ok, status]).toEqual([false, 302]);
    expect(text).toContain('a redirect to /short, which is not followed');
  });
});
