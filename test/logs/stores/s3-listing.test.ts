// Lists of objects as a store of S3 gives them: by pages, late or never; and which of them a path means.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FindInputsOptions, findInputs } from '../../../src/logs/find-inputs.js';
import { findSteps } from '../../../src/logs/steps/read-steps.js';
import { s3Problem } from '../../../src/logs/stores/s3/client.js';

const KEYS = [
  'a[1]/step_1.safetensors',
  'a[1]/step_2.safetensors',
  'a1/step_1.safetensors',
  'odd (1)-old/step_9.safetensors',
  'odd (1)/step_1.safetensors',
  'odd (1)/step_2.safetensors',
  'p*/one',
  'p1/one.safetensors',
  'runs/.hidden/step_1.safetensors',
  'runs/.step_3.safetensors',
  'runs/a/b/step_12.safetensors',
  'runs/a/step_1.safetensors',
  'runs/step_2.safetensors',
  'runs/x}y,z/step_1.safetensors',
];

/** What the server does with the next request, before it answers the others. */
let faults: ('stall' | 'no token' | 'same token')[] = [];
let requests: string[] = [];
let server: Server;
const saved = { ...process.env };

beforeEach(async () => {
  faults = [];
  requests = [];
  server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://localhost');
    requests.push(searchParams.toString());
    const fault = faults.shift();
    if (fault === 'stall') return;
    const most = Number(searchParams.get('max-keys'));
    const from = Number(searchParams.get('continuation-token') ?? 0);
    const all = KEYS.filter((key) => key.startsWith(searchParams.get('prefix') ?? ''));
    const next = from + most;
    const isTruncated = next < all.length;
    const token = fault === 'no token' || !isTruncated ? '' : `${fault === 'same token' ? from : next}`;
    const contents = all.slice(from, next).map((key) => `<Contents><Key>${key}</Key></Contents>`);
    response.setHeader('content-type', 'application/xml');
    response.end(
      `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}` +
        `${token && `<NextContinuationToken>${token}</NextContinuationToken>`}</ListBucketResult>`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  Object.assign(process.env, {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_ACCESS_KEY_ID: 'x',
    AWS_SECRET_ACCESS_KEY: 'x',
    AWS_EC2_METADATA_DISABLED: 'true',
  });
});

afterEach(async () => {
  process.env = { ...saved };
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const search = async (path: string, listing: FindInputsOptions['listing']) => {
  const { hits, problems } = await findInputs(path, { wanted: 'steps', listing });
  return { paths: hits.map((hit) => hit.path), problems };
};

const found = async (path: string, listing = {}) => {
  const { paths, problems } = await search(path, listing);
  return [...paths, ...problems.map(({ message }) => message)];
};

describe('a path with characters of patterns', () => {
  it.each([
    ['s3://b/odd (1)', ['s3://b/odd (1)/step_1.safetensors', 's3://b/odd (1)/step_2.safetensors']],
    ['s3://b/odd (1)/', ['s3://b/odd (1)/step_1.safetensors', 's3://b/odd (1)/step_2.safetensors']],
    ['s3://b/a[1]/step_2.safetensors', ['s3://b/a[1]/step_2.safetensors']],
    ['s3://b/a[1]', ['s3://b/a[1]/step_1.safetensors', 's3://b/a[1]/step_2.safetensors']],
    ['s3://b/p*/one', ['s3://b/p*/one']],
    ['s3://b/p*/*.safetensors', ['s3://b/p1/one.safetensors']],
    ['s3://b/a[1]/step_[1].safetensors', ['s3://b/a1/step_1.safetensors']],
  ])('%s is what has this very name, else a pattern', async (path, expected) => {
    expect(await found(path)).toEqual(expected);
  });
});

describe('below a prefix or by a pattern', () => {
  it.each([
    ['', ['a/b/step_12', 'a/step_1', 'step_2', 'x}y,z/step_1']],
    ['/**/step_*.safetensors', ['a/b/step_12', 'a/step_1', 'step_2', 'x}y,z/step_1']],
    ['/**', ['a/b/step_12', 'a/step_1', 'step_2', 'x}y,z/step_1']],
    ['/*/step_?.safetensors', ['a/step_1', 'x}y,z/step_1']],
    ['/{a/step_1,step_2}.safetensors', ['a/step_1', 'step_2']],
    ['/*/step_[!2-9].safetensors', ['a/step_1', 'x}y,z/step_1']],
    ['/**/step_[2-9].safetensors', ['step_2']],
    ['/*}y,z/*.safetensors', ['x}y,z/step_1']],
  ])('s3://b/runs%s: names that begin with a dot are passed over', async (pattern, names) => {
    const paths = await found(`s3://b/runs${pattern}`);
    expect(paths.sort()).toEqual(names.map((name) => `s3://b/runs/${name}.safetensors`));
  });
});

describe('a store', () => {
  const limits = { stallMs: 150, backoffMs: 1 };

  it('that does not answer is asked again', async () => {
    faults = ['stall', 'stall'];
    expect(await found('s3://b/odd (1)', limits)).toHaveLength(2);
  });

  it('that never answers is told of', async () => {
    faults = new Array(9).fill('stall');
    expect(await found('s3://b/a1', { ...limits, attempts: 2 })).toEqual([
      's3://b/a1: the store was asked 3 times, and has not answered within 0.15 s: check AWS_ENDPOINT_URL and the network',
    ]);
  });

  it('is not waited for when the search is aborted', async () => {
    faults = new Array(9).fill('stall');
    const stop = new AbortController();
    const search = findSteps('s3://b/a1', { signal: stop.signal });
    const outcome = search.catch((error: unknown) => error);
    await expect.poll(() => requests.length).toBe(1);
    stop.abort(new Error('enough'));
    expect(await outcome).toEqual(new Error('enough'));
  });

  it.each(['no token', 'same token'] as const)(
    'whose list goes on with %s is no S3: nothing is lost in silence',
    async (fault) => {
      faults = [undefined as never, fault];
      expect(await found('s3://b', { pageKeys: 3 })).toEqual([expect.stringContaining('not where they go on')]);
    },
  );
});

it('a search of directories ends when it is aborted', async () => {
  await expect(findSteps('examples', { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
});

it('lists a folder of more objects than a call has arguments', async () => {
  const ordinary = KEYS.splice(0);
  try {
    for (let step = 0; step < 150_000; step++) KEYS.push(`many/step_${step}.safetensors`);
    const { paths, problems } = await search('s3://b/many', { pageKeys: 50_000 });
    expect(problems).toEqual([]);
    expect(paths).toEqual(KEYS.map((key) => `s3://b/${key}`));
  } finally {
    KEYS.splice(0, KEYS.length);
    for (const key of ordinary) KEYS.push(key);
  }
}, 60_000);

it('what a store says stands in a message as far as a message goes', () => {
  const answer = (message: string) => Object.assign(new Error(message), { $metadata: { httpStatusCode: 418 } });
  expect(s3Problem(answer('no tea\nhere'))).toBe('the store answered 418 Error: no tea');
  expect(s3Problem(answer('no '.repeat(1e6))).length).toBeLessThan(600);
});
