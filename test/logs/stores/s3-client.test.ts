// What an S3 client is told and tells, without a store: places, problems in words, whose fault they are, bodies, and
// requests in line.
import { expect, it } from 'vitest';
import { FileError } from '../../../src/checks/errors.js';
import { takeBody } from '../../../src/logs/stores/s3/body.js';
import { isStoreFault, MAX_REQUESTS, parseS3, s3Problem } from '../../../src/logs/stores/s3/client.js';
import { requestSlots } from '../../../src/logs/stores/s3/request-slots.js';
import { BrokenBody } from '../../../src/logs/stores/s3/retry.js';

it('a place is a bucket and a key, which may be empty or hold anything', () => {
  expect(parseS3('s3://bucket')).toEqual({ bucket: 'bucket', key: '' });
  expect(parseS3('s3://bucket/')).toEqual({ bucket: 'bucket', key: '' });
  expect(parseS3('s3://bucket/a/b?c#d\n/e')).toEqual({ bucket: 'bucket', key: 'a/b?c#d\n/e' });
  for (const none of ['s3://', 's3:///a', 's3:/a/b', 'S3://a/b', 's3://a?b', 'a s3://a/b'])
    expect(() => parseS3(none)).toThrow(FileError);
});

/** An error as the client throws it. */
const failure = (name: string, status?: number, more: object = {}): Error =>
  Object.assign(new Error('first line\nsecond line'), {
    name,
    ...(status !== 0 && { $metadata: { httpStatusCode: status } }),
    ...more,
  });

it.each([
  [failure('NoSuchBucket', 404), 'there is no such bucket', true],
  [failure('NoSuchKey', 404), 'there is no such object', false],
  [failure('NotFound', 404), 'there is no such object', false],
  [failure('CredentialsProviderError', 0), 'no credentials: set AWS_ACCESS_KEY_ID', true],
  [failure('Forbidden', 403), 'access denied (Forbidden)', true],
  [failure('AccessDenied', 400), 'access denied (AccessDenied)', true],
  [failure('Error', 0, { message: 'Region is missing' }), 'no region: set AWS_REGION', true],
  [failure('PreconditionFailed', 412), 'the object was replaced while it was read', false],
  [failure('Moved', 301), 'the bucket is in another region', true],
  [failure('PermanentRedirect', 400), 'the bucket is in another region', true],
  [failure('Error', undefined, { code: 'ECONNREFUSED' }), 'the store cannot be reached (ECONNREFUSED)', true],
  [failure('Error', undefined, { code: 'EAI_AGAIN' }), 'the store cannot be reached (EAI_AGAIN)', true],
  [failure('TimeoutError', undefined), 'the store cannot be reached: check', true],
  [failure('Slow', 429), 'the store answered 429 Slow: first line; it is busy or failing: try again later', true],
  [failure('Internal', 500), 'the store answered 500 Internal: first line; it is busy or failing', true],
  [failure('Bad', 400), 'the store answered 400 Bad: first line', false],
  [failure('ExpiredToken', 400), 'the store answered 400 ExpiredToken: first line', true],
] as const)('answers %s: %s', (error, words, ofStore) => {
  const said = s3Problem(error);
  expect(said.startsWith(words)).toBe(true);
  expect(said).not.toContain('second line');
  expect(said.endsWith('try again later')).toBe(/ (429|500) /.test(said));
  expect(isStoreFault(error)).toBe(ofStore);
});

it('an error that no client threw is not the store’s', () => {
  expect(isStoreFault(new Error('no'))).toBe(false);
});

async function* chunks(...sizes: number[]): AsyncGenerator<Buffer> {
  let next = 0;
  for (const size of sizes) yield Buffer.from(Array.from({ length: size }, () => next++));
}

it('of a body no more is taken than was asked for, and each piece is told of', async () => {
  const target = new Uint8Array(7);
  const told: (string | number)[] = [];
  const take = (...sizes: number[]) =>
    takeBody(
      chunks(...sizes),
      target,
      () => told.push('came'),
      (bytes) => told.push(bytes),
      new AbortController().signal,
    );
  await take(3, 3, 5);
  expect([...target]).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(told).toEqual(['came', 3, 'came', 3, 'came', 1]);
  const early = await take(3, 3).catch((error: unknown) => error);
  expect(early).toBeInstanceOf(BrokenBody);
  expect((early as Error).cause).toEqual(new Error('1 bytes are missing'));
});

it('a body that stands still ends with the signal, aborted before or later', async () => {
  const stands: AsyncIterable<Buffer> = {
    [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }),
  };
  const take = (signal: AbortSignal) =>
    takeBody(
      stands,
      new Uint8Array(1),
      () => undefined,
      () => undefined,
      signal,
    );
  await expect(take(AbortSignal.abort())).rejects.toBeInstanceOf(BrokenBody);
  const later = new AbortController();
  const taking = expect(take(later.signal)).rejects.toBeInstanceOf(BrokenBody);
  later.abort();
  await taking;
});

it('so many requests are out at a time, those that fail included, and the others come in their order', async () => {
  for (let round = 0; round < 2; round++) {
    let [out, most] = [0, 0];
    const ends: (() => void)[] = [];
    const begun: number[] = [];
    const all = Array.from({ length: 3 * MAX_REQUESTS }, (_, at) =>
      requestSlots.use(async () => {
        begun.push(at);
        most = Math.max(most, ++out);
        await new Promise<void>((resolve) => ends.push(resolve));
        out--;
        if (at % 2 === 0) throw new Error('fails');
      }),
    );
    const outcomes = Promise.allSettled(all);
    for (let ended = 0; ended < 3 * MAX_REQUESTS; ended++) {
      await expect.poll(() => ends.length).toBeGreaterThan(ended);
      if (ended === 0) expect(out).toBe(MAX_REQUESTS);
      ends[ended]?.();
    }
    expect((await outcomes).filter(({ status }) => status === 'rejected')).toHaveLength(1.5 * MAX_REQUESTS);
    expect([most, out]).toEqual([MAX_REQUESTS, 0]);
    expect(begun).toEqual(all.map((_, at) => at));
  }
});
