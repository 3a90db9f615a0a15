// An object of a store that changes between two answers: it is refused, and nothing is read that the store did not
// send.
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openObject } from '../../../src/logs/stores/s3/object.js';

let answer: RequestListener;
const server = createServer((request, response) => answer(request, response));

beforeEach(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  vi.stubEnv('AWS_ENDPOINT_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  vi.stubEnv('AWS_ENDPOINT_URL_S3', '');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'none');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'none');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const EMPTY = '<Error><Code>InvalidRange</Code><Message>The requested range is not satisfiable</Message></Error>';

it('that is written after it was found to be empty is told of', async () => {
  answer = ({ method }, response) => {
    if (method === 'HEAD') response.writeHead(200, { 'content-length': 8, etag: '"new"' }).end();
    else response.writeHead(416, { 'content-type': 'application/xml' }).end(EMPTY);
  };
  await expect(openObject('s3://bucket/step.safetensors')).rejects.toThrow(
    's3://bucket/step.safetensors: the object was replaced while it was read',
  );
});

it('that is empty is read as such', async () => {
  answer = ({ method }, response) => {
    if (method === 'HEAD') response.writeHead(200, { 'content-length': 0, etag: '"empty"' }).end();
    else response.writeHead(416, { 'content-type': 'application/xml' }).end(EMPTY);
  };
  const { bytes, revision } = await openObject('s3://bucket/step.safetensors');
  expect({ bytes, revision }).toEqual({ bytes: 0, revision: '0-"empty"' });
});

const DATA = Buffer.from(Uint8Array.from({ length: 600_000 }, (_, at) => (at * 31 + (at >> 8)) % 251));
const WINDOW = 65536;
const PATH = 's3://bucket/object.bin';

interface Answer {
  readonly etag?: string;
  readonly headers?: Record<string, string | number>;
  /** Bytes that are sent, and then the connection is cut. */
  readonly cutAfter?: number;
  /** No answer comes. */
  readonly silent?: boolean;
}

/** Answers ranges of DATA. @param answerOf what is odd about an answer: its number, from 0 on, and its first byte */
function store(answerOf: (request: number, from: number) => Answer = () => ({})): [from: number, to: number][] {
  const asked: [number, number][] = [];
  answer = ({ headers }, response) => {
    const [, from, last] = (/^bytes=([0-9]+)-([0-9]+)$/.exec(headers.range ?? '') ?? []).map(Number) as [
      0,
      number,
      number,
    ];
    const end = Math.min(last + 1, DATA.length);
    const { etag = '"one"', headers: odd, cutAfter, silent } = answerOf(asked.length, from);
    asked.push([from, end]);
    if (silent) return;
    response.writeHead(206, {
      'content-range': `bytes ${from}-${end - 1}/${DATA.length}`,
      'content-length': end - from,
      ...(etag !== '' && { etag }),
      ...odd,
    });
    if (cutAfter === undefined) return response.end(DATA.subarray(from, end));
    // An answer that breaks in its body: before it, the client asks again by itself.
    response.flushHeaders();
    if (cutAfter > 0) response.write(DATA.subarray(from, from + cutAfter));
    setTimeout(() => response.destroy(), 5);
  };
  return asked;
}

const quick = { stallMs: 5000, backoffMs: 1, attempts: 0 };
async function bytesOf(source: Awaited<ReturnType<typeof openObject>>, from: number, count: number): Promise<Buffer> {
  const target = Buffer.alloc(count);
  await source.read(target, from);
  return target;
}

it('small reads come in windows, the latest four of which are kept; what failed is asked for again', async () => {
  let fails = false;
  const asked = store(() => (fails ? { cutAfter: 0 } : {}));
  const source = await openObject(PATH, {}, quick);
  const read = async (from: number, count: number) => {
    const before = asked.length;
    expect((await bytesOf(source, from, count)).equals(DATA.subarray(from, from + count))).toBe(true);
    return asked.slice(before).map(([begin]) => begin / WINDOW);
  };
  // Its beginning came when it was opened.
  expect(await read(100, 50)).toEqual([]);
  expect(await read(WINDOW - 10, 20)).toEqual([1]);
  // Of one window, though it ends at the next.
  expect(await read(2 * WINDOW - 10, 10)).toEqual([]);
  expect(await read(2 * WINDOW, 2 * WINDOW - (3 * WINDOW) / 2)).toEqual([2]);
  expect(await read(3 * WINDOW, 1)).toEqual([3]);
  expect(await read(4 * WINDOW, 1)).toEqual([4]);
  expect(await read(4 * WINDOW, 1)).toEqual([]);
  expect(await read(0, 1)).toEqual([0]);
  expect(await read(2 * WINDOW, 1)).toEqual([]);
  // The last one is shorter.
  expect(await read(9 * WINDOW, DATA.length - 9 * WINDOW)).toEqual([9]);
  fails = true;
  await expect(read(6 * WINDOW, 1)).rejects.toThrow('the connection broke 1 times in a row');
  fails = false;
  expect(await read(6 * WINDOW, 1)).toEqual([6]);
  expect(await read(0, 0)).toEqual([]);
  expect(await read(DATA.length, 0)).toEqual([]);
  await expect(read(DATA.length, 1)).rejects.toThrow('1 bytes short');
});

it('a body that breaks is taken up where it broke, as often as was said without a byte in between', async () => {
  const settings = { ...quick, attempts: 2 };
  // Every answer breaks, and each brings something.
  const asked = store((request) => (request === 0 ? {} : { cutAfter: 50_000 }));
  const source = await openObject(PATH, {}, settings);
  expect((await bytesOf(source, 0, 190_000)).equals(DATA.subarray(0, 190_000))).toBe(true);
  expect(asked.length).toBeGreaterThanOrEqual(5);
  for (const [breaks, fails] of [
    [2, false],
    [3, true],
  ] as const) {
    const first = store((request) => (request < breaks ? { cutAfter: 0 } : {}));
    const opening = openObject(PATH, {}, settings);
    if (fails) await expect(opening).rejects.toThrow('the connection broke 3 times in a row');
    else expect((await opening).bytes).toBe(DATA.length);
    expect(first).toHaveLength(3);
    store((request) => (request > 0 && request <= breaks ? { cutAfter: 0 } : {}));
    const reading = bytesOf(await openObject(PATH, {}, settings), 200_000, 100_000);
    if (fails) await expect(reading).rejects.toThrow('the connection broke 3 times in a row');
    else expect((await reading).equals(DATA.subarray(200_000, 300_000))).toBe(true);
  }
});

it('what a store sends that knows no If-Match, or no ETag, is looked at all the same', async () => {
  store((request) => ({ etag: request === 0 ? '"one"' : '"two"' }));
  await expect(bytesOf(await openObject(PATH, {}, quick), 200_000, 10)).rejects.toThrow('the object was replaced');
  const at = (second: number) => ({
    etag: '',
    headers: { 'last-modified': new Date(1e12 + 1000 * second).toUTCString() },
  });
  store(() => at(0));
  const source = await openObject(PATH, {}, quick);
  expect(source.revision).toBe(`600000-${1e12}`);
  expect((await bytesOf(source, 200_000, 10)).equals(DATA.subarray(200_000, 200_010))).toBe(true);
  store((request) => at(request));
  await expect(bytesOf(await openObject(PATH, {}, quick), 200_000, 10)).rejects.toThrow('the object was replaced');
  await expect(openObject(PATH, { expected: '600000-"one"' }, quick)).rejects.toThrow(
    'changed after its header was read',
  );
  store(() => ({ headers: { 'content-length': 600_000, 'content-range': '' } }));
  await expect(openObject(PATH, {}, quick)).rejects.toThrow('does not answer ranges as S3 does');
  store(() => ({ headers: { 'content-length': 7 } }));
  await expect(openObject(PATH, {}, quick)).rejects.toThrow('Content-Length 7');
  store((request) => (request === 0 ? {} : { headers: { 'content-length': 7 } }));
  await expect(bytesOf(await openObject(PATH, {}, quick), 200_000, 100_000)).rejects.toThrow(
    'the store sends 7 bytes for a range of 100000',
  );
});

it('where one part fails the others are not waited for, and an abort ends all with its reason', async () => {
  const settings = { ...quick, partBytes: 50_000, stallMs: 1e6 };
  store((_, from) => (from === 150_000 ? { etag: '"two"' } : from > 0 ? { silent: true } : {}));
  const source = await openObject(PATH, {}, settings);
  await expect(bytesOf(source, 0, 400_000)).rejects.toMatchObject({
    offset: 150_000,
    message: expect.stringContaining('the object was replaced'),
  });
  store((_, from) => (from > 0 ? { silent: true } : {}));
  const reason = new Error('enough');
  const controller = new AbortController();
  const reading = source.read(Buffer.alloc(400_000), 0, { signal: controller.signal });
  setTimeout(() => controller.abort(reason), 20);
  await expect(reading).rejects.toBe(reason);
  await expect(source.read(Buffer.alloc(1), 0, { signal: controller.signal })).rejects.toBe(reason);
});

it('the endpoint of S3 alone comes before that of all services; one that is empty is none', async () => {
  const endpoint = process.env.AWS_ENDPOINT_URL as string;
  store();
  vi.stubEnv('AWS_ENDPOINT_URL', 'http://127.0.0.1:9');
  vi.stubEnv('AWS_ENDPOINT_URL_S3', endpoint);
  expect((await openObject(PATH, {}, quick)).bytes).toBe(DATA.length);
  vi.stubEnv('AWS_ENDPOINT_URL', endpoint);
  vi.stubEnv('AWS_ENDPOINT_URL_S3', '');
  expect((await openObject(PATH, {}, quick)).bytes).toBe(DATA.length);
});
