// Rollout logs in a store of S3: a prefix, a pattern or an object gives what the same files on a disk give.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { analyze, type FileError, type StepReport } from '../../../src/index.js';
import { fileOf, smallStep as smallFile } from '../../support/logs-files.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { type S3Server, SERVERS } from '../stores/s3-servers.js';
import { jsonLines, putLogs } from './rollout-logs.js';

const folder = temporaryDirectory();
const before = { ...process.env };

/** verl's log of the legacy trainer, a file a step. */
const lines = (step: number) =>
  Array.from({ length: 16 }, (_, row) => ({
    input: `question ${row >> 2}`,
    output: `<think>word${row >> 2} and word${(row * step) % 7}</think> ${row % 3}`,
    score: row % 2,
    step,
  }));

async function collect(source: string | string[], more: object = {}) {
  const reports: StepReport[] = [];
  const failures: string[] = [];
  const onFailure = ({ message }: FileError) => failures.push(message);
  for await (const report of analyze(source, { permutations: 19, onFailure, ...more })) reports.push(report);
  return { reports, failures };
}

const figures = ({ step, run, record: { file: _, ...record } }: StepReport) => ({ step, run, record });

describe.each(SERVERS)('rollout logs in $name', ({ there, key, start }) => {
  const test = it.skipIf(!there);
  let server: S3Server;
  let client: S3Client;
  const disk = join(folder, 'disk', 'grpo');
  const upload = (name: string, Body: Uint8Array | string) =>
    client.send(new PutObjectCommand({ Bucket: 'logs', Key: name, Body }));

  beforeAll(async () => {
    if (!there) return;
    mkdirSync(join(folder, key), { recursive: true });
    server = await start(join(folder, key));
    Object.assign(process.env, {
      AWS_ENDPOINT_URL: server.endpoint,
      AWS_ACCESS_KEY_ID: key,
      AWS_SECRET_ACCESS_KEY: key,
      AWS_EC2_METADATA_DISABLED: 'true',
    });
    const credentials = { accessKeyId: key, secretAccessKey: key };
    client = new S3Client({ endpoint: server.endpoint, region: 'us-east-1', forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: 'logs' }));
    putLogs(disk, Object.fromEntries([1, 2, 3, 10].map((step) => [`${step}.jsonl`, lines(step)])));
    for (const name of readdirSync(disk)) await upload(`runs/grpo/${name}`, readFileSync(join(disk, name)));
    await upload('runs/grpo/.hidden.jsonl', 'x');
    await upload('runs/grpo/notes.txt', 'x');
    await upload('runs2/1.jsonl', jsonLines(lines(1)));
  });
  afterAll(async () => {
    client?.destroy();
    await server?.stop();
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
    Object.assign(process.env, before);
  });

  test('below a prefix are the steps of the same files on a disk', async () => {
    const [near, far] = [await collect(disk), await collect('s3://logs/runs/')];
    expect(near.reports).toHaveLength(4);
    expect(far.failures).toEqual([]);
    expect(far.reports.map(figures)).toEqual(near.reports.map(figures));
    expect(far.reports[0]?.record.file).toBe('s3://logs/runs/grpo/1.jsonl');
  });

  test('are matched by a pattern, named one by one, and left out by name', async () => {
    const steps = async (source: string | string[], more: object = {}) =>
      (await collect(source, more)).reports.map(({ step }) => step);
    expect(await steps('s3://logs/runs/*/1*.jsonl')).toEqual([1, 10]);
    expect(await steps('s3://logs/runs/grpo/2.jsonl')).toEqual([2]);
    expect(await steps('s3://logs/runs', { exclude: ['grpo/1*'] })).toEqual([2, 3]);
  });

  test('stand beside step files, and a prefix of neither is named', async () => {
    await upload('both/grpo/1.jsonl', jsonLines(lines(1)));
    await upload('both/grpo/step_2.safetensors', fileOf(smallFile(), { step: '2' }));
    await upload('odd/weights', fileOf(smallFile(), { step: '5' }));
    const both = await collect('s3://logs/both');
    expect(both.failures).toEqual([]);
    expect(both.reports.map(({ step, texts }) => [step, texts !== undefined])).toEqual([
      [1, true],
      [2, false],
    ]);
    // A step file of any name, where it is named.
    expect((await collect('s3://logs/odd/weights')).reports.map(({ step }) => step)).toEqual([5]);
    const none = await collect('s3://logs/none');
    expect(none.reports).toEqual([]);
    expect(none.failures).toHaveLength(1);
    expect(none.failures[0]).toMatch(/no object below this prefix is a .*step files.*; nor rollouts: .*\.jsonl/);
  });
});
