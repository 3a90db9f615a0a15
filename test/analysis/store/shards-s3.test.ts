// Shards over s3:// where the store, the network or the rights fail: that is no fault of a step, and no journal counts as
// whole then.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { isUnreachable } from '../../../src/logs/stores/is-unreachable.js';
import { collapsar } from '../../cli/cli-streams.js';
import { type FaultyProxy, type S3Server, SERVERS, startFaultyProxy } from '../../logs/stores/s3-servers.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { analyzed, finished, measureOne, shownOf } from './shard-runs.js';

const directory = temporaryDirectory();
const saved = { ...process.env };
let made = 0;
function fresh(): string {
  const path = join(directory, String(made++));
  mkdirSync(path);
  return path;
}

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(async () => {
  process.env = saved;
  await engine.dispose();
});

const SOURCE = 's3://runs/grpo';
const STEPS = 3;

describe.each(SERVERS)('$name', ({ there, key, start }) => {
  const test = it.skipIf(!there);
  const store = join(directory, `store-${key}`);
  let server: S3Server | undefined;
  let proxy: FaultyProxy | undefined;
  let out = '';

  function useEndpoint(endpoint: string): void {
    Object.assign(process.env, {
      AWS_ENDPOINT_URL: endpoint,
      AWS_ACCESS_KEY_ID: key,
      AWS_SECRET_ACCESS_KEY: key,
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
      AWS_CONFIG_FILE: '/dev/null',
    });
  }

  beforeEach(async () => {
    if (!there) return;
    mkdirSync(store, { recursive: true });
    server = await start(store);
    proxy = await startFaultyProxy(server.endpoint);
    const credentials = { accessKeyId: key, secretAccessKey: key };
    const client = new S3Client({ endpoint: server.endpoint, region: 'us-east-1', forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: 'runs' })).catch(() => undefined);
    for (let step = 1; step <= STEPS; step++) {
      const Body = readFileSync(await putStep(join(fresh(), 'step.safetensors'), smallStep(step)));
      await client.send(new PutObjectCommand({ Bucket: 'runs', Key: `grpo/${step}.safetensors`, Body }));
    }
    client.destroy();
    useEndpoint(proxy.endpoint);
    out = fresh();
  });
  afterEach(async () => {
    await proxy?.stop();
    await server?.stop();
    [server, proxy] = [undefined, undefined];
  });

  /** What it was refused with; no journal may count as whole then. */
  async function refused(): Promise<string> {
    const { err, ...rest } = await collapsar(['analyze', SOURCE, '--shard', '0/1', '--out', out, '--quiet']);
    expect(rest).toEqual({ status: 1, out: '' });
    expect(readdirSync(join(out, 'journals'))).not.toContain('0-of-1');
    return err;
  }

  async function expectRest(): Promise<void> {
    const rest = fresh();
    await measureOne(engine, SOURCE, rest, 0, 1);
    const given = await finished(engine, SOURCE, rest);
    expect(given).toMatchObject({ resumed: STEPS, ...shownOf(await analyzed(engine, SOURCE)) });
    expect(given.reports).toHaveLength(STEPS);
    // The same prefix, written otherwise.
    for (const source of [`${SOURCE}/`, `${SOURCE}/*.safetensors`]) {
      expect((await finished(engine, source, rest)).resumed).toBe(STEPS);
    }
  }

  test('a server that is down, and up again', async () => {
    await proxy?.stop();
    expect(await refused()).toContain('the store cannot be reached (ECONNREFUSED)');
    useEndpoint(server?.endpoint as string);
    await expectRest();
  }, 60_000);

  test.each([
    ['forbidden', /access denied/],
    ['unavailable', /the store answered 503 .*; it is busy or failing: try again later/],
    [{ cutAfter: 10 }, /the connection broke 6 times in a row/],
  ] as const)(
    'every answer %j',
    async (fault, said) => {
      (proxy as FaultyProxy).fault = () => fault;
      expect(await refused()).toMatch(said);
      (proxy as FaultyProxy).fault = () => undefined;
      await expectRest();
    },
    60_000,
  );

  test('an outage of some of the objects', async () => {
    (proxy as FaultyProxy).fault = (_range, _request, path) => (path.includes('/2.safe') ? 'unavailable' : undefined);
    expect(await refused()).toMatch(/grpo\/2\.safetensors: out of reach from here: the store answered 503/);
    (proxy as FaultyProxy).fault = () => undefined;
    await expectRest();
  }, 60_000);

  test('no credentials', async () => {
    delete process.env.AWS_ACCESS_KEY_ID;
    delete process.env.AWS_SECRET_ACCESS_KEY;
    expect(await refused()).toContain('no credentials');
  }, 60_000);
});

describe('a file that could not be read', () => {
  const withCode = (code: string) => Object.assign(new Error(code), { code });
  const ofStore = (name: string, httpStatusCode?: number) =>
    Object.assign(new Error(name), { name, $metadata: { httpStatusCode } });
  const judged = (cause: unknown) => isUnreachable(new FileError({ path: 'x' }, 'cannot be read', { cause }), 'x');

  it.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'EPIPE', 'ETIMEDOUT', 'EIO', 'ESTALE'])(
    'for %s is out of reach',
    async (code) => {
      expect(await judged(withCode(code))).toBe(true);
      expect(await judged(new FileError({ path: 'x' }, 'inner', { cause: withCode(code) }))).toBe(true);
    },
  );

  it.each([
    [ofStore('TimeoutError'), true],
    [ofStore('CredentialsProviderError'), true],
    [ofStore('SlowDown', 503), true],
    [ofStore('InternalError', 500), true],
    [ofStore('Forbidden', 403), true],
    [ofStore('ExpiredToken', 400), true],
    [ofStore('NoSuchBucket', 404), true],
    [ofStore('NoSuchKey', 404), false],
    [ofStore('PreconditionFailed', 412), false],
    [withCode('ENOENT'), false],
    [withCode('EACCES'), false],
    [new SyntaxError('its header is no JSON'), false],
    [undefined, false],
  ])('is named for %s: %s', async (cause, expected) => {
    expect(await judged(cause)).toBe(expected);
  });
});
