// s3:// paths against real servers on loopback: the same steps as from the disk, in any number of ranges, through
// broken and refused answers, and never a mixture of two contents.
import { execFile } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measureOptions } from '../../../src/analysis/measuring/measure-options.js';
import { measureStepFile } from '../../../src/analysis/measuring/measure-step-data.js';
import { FileError } from '../../../src/checks/errors.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { findInputs } from '../../../src/logs/find-inputs.js';
import { findSteps, listSteps, readSteps } from '../../../src/logs/steps/read-steps.js';
import { readStepFile } from '../../../src/logs/steps/step-file.js';
import { openObject } from '../../../src/logs/stores/s3/object.js';
import { fileErrorOf, fileOf, fullStep, put, type RawTensor, smallStep } from '../../support/logs-files.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { type FaultyProxy, type S3Server, SERVERS, startFaultyProxy } from './s3-servers.js';

const folder = temporaryDirectory();
const { cross_logprobs } = smallStep() as { cross_logprobs: RawTensor & { data: Float32Array } };
const SMALL_SCORES = [...cross_logprobs.data];

function useEndpoint(endpoint: string, key: string): void {
  Object.assign(process.env, {
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: key,
    AWS_SECRET_ACCESS_KEY: key,
    AWS_EC2_METADATA_DISABLED: 'true',
  });
}

/** Bytes that tell their position. */
function pattern(bytes: number): Buffer {
  const data = Buffer.alloc(bytes);
  for (let at = 0; at + 4 <= bytes; at += 4) data.writeUInt32LE(at, at);
  return data;
}

describe.each(SERVERS)('$name', ({ there, key, start }) => {
  const test = it.skipIf(!there);
  let server: S3Server;
  let proxy: FaultyProxy;
  let client: S3Client;
  const upload = (name: string, Body: Uint8Array) =>
    client.send(new PutObjectCommand({ Bucket: 'runs', Key: name, Body }));

  beforeAll(async () => {
    if (!there) return;
    await mkdir(join(folder, key), { recursive: true });
    server = await start(join(folder, key));
    proxy = await startFaultyProxy(server.endpoint);
    client = new S3Client({
      endpoint: server.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: key, secretAccessKey: key },
    });
    await client.send(new CreateBucketCommand({ Bucket: 'runs' }));
    useEndpoint(server.endpoint, key);
  });
  afterAll(async () => {
    client?.destroy();
    await proxy?.stop();
    await server?.stop();
  });

  test('a prefix is a run: the same steps, in the same order, with the same metrics as from the disk', async () => {
    await mkdir(join(folder, `disk-${key}/a`), { recursive: true });
    for (const step of [9, 10, 100]) {
      const bytes = fileOf(fullStep(), { step: String(step) });
      await put(join(folder, `disk-${key}/a/step_${step}.safetensors`), bytes);
      await upload(`disk/a/step_${step}.safetensors`, bytes);
    }
    await upload('disk/a/.hidden.safetensors', Buffer.of(1));
    await upload('disk/a/notes.txt', Buffer.of(1));
    await upload('disk2/step_1.safetensors', Buffer.of(1));
    const local = await listSteps(join(folder, `disk-${key}`));
    const remote = await listSteps('s3://runs/disk');
    expect(remote.map(({ step, run, bytes, layout }) => ({ step, run, bytes, layout }))).toEqual(
      local.map(({ step, run, bytes, layout }) => ({ step, run, bytes, layout })),
    );
    expect(remote.map(({ file }) => file)).toEqual([9, 10, 100].map((n) => `s3://runs/disk/a/step_${n}.safetensors`));
    expect(new Set(remote.map(({ runDirectory }) => runDirectory))).toEqual(new Set(['s3://runs/disk/a']));
    const engine = await openEngine({ threads: 1 });
    const measured = (file: string) =>
      measureStepFile(engine, file, measureOptions({ permutations: 19 }), 64, AbortSignal.timeout(30_000));
    const [near, far] = [local[0]?.file as string, remote[0]?.file as string];
    expect(await measured(far)).toEqual(await measured(near));
    engine.dispose();
  });

  test('more objects than a page holds; patterns; single objects; what is not there', async () => {
    const small = fileOf(smallStep(), { step: '1' });
    for (let i = 0; i < 31; i++) await upload(`many/r${i % 2}/step_${i}.safetensors`, small);
    const { files, problems } = await findSteps(['s3://runs/many/']);
    expect(problems).toEqual([]);
    expect(files.length).toBe(31);
    expect(files.slice(0, 3).map(({ path }) => path)).toEqual(
      [0, 2, 4].map((n) => `s3://runs/many/r0/step_${n}.safetensors`),
    );
    for (const pageKeys of [1, 7, 31]) {
      const { hits } = await findInputs('s3://runs/many', { wanted: 'steps', listing: { pageKeys } });
      expect(new Set(hits.map(({ path }) => path))).toEqual(new Set(files.map(({ path }) => path)));
    }
    const found = async (path: string) => (await findSteps([path])).files.length;
    expect(await found('s3://runs/many/r1/step_1?.safetensors')).toBe(5);
    expect(await found('s3://runs/many/**/step_{1,2,30}.safetensors')).toBe(3);
    expect(await found('s3://runs/many/*/step_[!1-8].safetensors')).toBe(2);
    expect(await found('s3://runs/many/r0/step_0.safetensors')).toBe(1);
    const messages = async (path: string) => (await findSteps([path])).problems.map(({ message }) => message);
    expect(await messages('s3://runs/nothing')).toEqual([expect.stringContaining('no object below this prefix')]);
    expect(await messages('s3://runs/many/*.npz')).toEqual([expect.stringContaining('as a pattern it matches no')]);
    expect(await messages('s3://no-such-bucket/x')).toEqual([expect.stringContaining('no such bucket')]);
    expect(await messages('s3:///x')).toEqual([expect.stringContaining('expected s3://bucket/prefix')]);
    const missing = await fileErrorOf(readStepFile('s3://runs/many/none.safetensors'));
    expect(missing.message).toContain('no such object');
  });

  test('compressed steps and arrays of numpy, as from the disk', async () => {
    const { gzipSync } = await import('node:zlib');
    await upload('packed/a.safetensors.gz', gzipSync(fileOf(fullStep(), { step: '7' })));
    await upload('packed/empty.safetensors', Buffer.alloc(0));
    const problems: string[] = [];
    const steps = [];
    for await (const step of readSteps('s3://runs/packed', { onError: ({ message }) => problems.push(message) })) {
      if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
      for await (const { logprobs } of step.scores.blocks()) steps.push([step.step, [...logprobs.data]]);
    }
    expect(steps).toEqual([[7, SMALL_SCORES]]);
    expect(problems).toEqual([expect.stringContaining('0 bytes, too few')]);
  });

  test('ranges of any size and place, many at a time', async () => {
    const data = pattern(3_000_000);
    await upload('pattern.bin', data);
    for (const partBytes of [2 ** 16, 999_999, 2 ** 23]) {
      const source = await openObject('s3://runs/pattern.bin', {}, { partBytes });
      expect(source.bytes).toBe(data.length);
      const ranges = [
        [0, 3_000_000],
        [1, 100],
        [65_530, 12],
        [2_999_999, 1],
        [1_234_567, 1_000_000],
        [3_000_000, 0],
        [500_000, 65_536],
      ] as const;
      await Promise.all(
        ranges.map(async ([at, bytes]) => {
          const target = Buffer.alloc(bytes);
          await source.read(target, at);
          expect(target.equals(data.subarray(at, at + bytes)), `${partBytes} ${at} ${bytes}`).toBe(true);
        }),
      );
      const beyond = await fileErrorOf(source.read(Buffer.alloc(10), data.length - 5, { tensor: 'x' }));
      expect(beyond).toMatchObject({ tensor: 'x', offset: data.length });
      await source.close();
    }
  });

  test('answers that are cut, stand still or are refused are taken up where they ended', async () => {
    const data = pattern(2_000_000);
    await upload('faults.bin', data);
    useEndpoint(proxy.endpoint, key);
    try {
      proxy.fault = (_range, request) => {
        if (request % 4 === 0) return { cutAfter: 70_000 };
        if (request % 4 === 1) return { stallAfter: 50_000 };
        if (request % 4 === 2) return 'unavailable';
        return undefined;
      };
      const settings = { partBytes: 500_000, stallMs: 300, backoffMs: 5 };
      const source = await openObject('s3://runs/faults.bin', {}, settings);
      const target = Buffer.alloc(data.length);
      await source.read(target, 0);
      expect(target.equals(data)).toBe(true);
      expect(proxy.requests.length).toBeGreaterThan(10);
      // Nothing comes any more: in the end it is said, with the place.
      proxy.fault = () => ({ cutAfter: 0 });
      const error = await fileErrorOf(source.read(Buffer.alloc(200_000), 100_000, { tensor: 'lengths' }));
      expect(error).toMatchObject({ tensor: 'lengths', offset: 100_000 });
      expect(error.message).toMatch(/broke 6 times in a row/);
      // An abort does not wait for a body that stands still.
      proxy.fault = () => ({ stallAfter: 0 });
      const patient = await openAfterFaults(settings);
      proxy.fault = () => ({ stallAfter: 0 });
      const controller = new AbortController();
      const reading = patient.read(Buffer.alloc(1_000_000), 0, { signal: controller.signal });
      setTimeout(() => controller.abort('stop'), 50);
      await expect(reading).rejects.toBe('stop');
    } finally {
      proxy.fault = () => undefined;
      useEndpoint(server.endpoint, key);
    }
    async function openAfterFaults(settings: object) {
      proxy.fault = () => undefined;
      return openObject('s3://runs/faults.bin', {}, { ...settings, stallMs: 60_000 });
    }
  });

  test('an object that is replaced is noticed, whichever way', async () => {
    const path = 's3://runs/replaced.safetensors';
    await upload('replaced.safetensors', fileOf(fullStep()));
    const step = await readStepFile(path, { blockBytes: 1 });
    const [listed] = await listSteps(path);
    const open = await openObject(path, {}, { partBytes: 100 });
    const changed = fullStep();
    (changed.cross_logprobs?.data as Float32Array)[3] = -7;
    await upload('replaced.safetensors', fileOf(changed));
    expect((await fileErrorOf(blocks(step))).message).toContain('the object changed after its header was read');
    const again = readStepFile(path, { identity: listed?.identity });
    expect((await fileErrorOf(again)).message).toContain('replaced or changed after it was listed');
    // The beginning is held; what is asked for now is refused.
    const big = pattern(300_000);
    await upload('big.bin', big);
    const source = await openObject('s3://runs/big.bin');
    big[299_999] = 1;
    await upload('big.bin', big);
    const error = await fileErrorOf(source.read(Buffer.alloc(100_000), 200_000));
    expect(error.message).toContain('the object was replaced while it was read');
    await open.close();
  });

  test('a process that has read ends by itself', async () => {
    await upload('end.safetensors', fileOf(smallStep(), { step: '1' }));
    const program = `
      import { readStepFile } from '${new URL('../../../dist/logs/steps/step-file.js', import.meta.url).href}';
      const step = await readStepFile('s3://runs/end.safetensors');
      for await (const { logprobs } of step.scores.blocks()) console.log(step.step, logprobs.data.length);
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      timeout: 20_000,
    });
    expect(stdout).toBe('1 24\n');
  });
});

async function blocks(step: Awaited<ReturnType<typeof readStepFile>>): Promise<void> {
  if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
  for await (const _ of step.scores.blocks());
}

it('without a server, the error says what to do', async () => {
  const saved = { ...process.env };
  try {
    useEndpoint('http://127.0.0.1:9', 'x');
    const { problems } = await findSteps(['s3://runs/x']);
    expect(problems[0]).toBeInstanceOf(FileError);
    expect(problems[0]?.message).toMatch(/cannot be reached \(ECONNREFUSED\): check AWS_ENDPOINT_URL/);
  } finally {
    process.env = saved;
  }
});

it('without the client, the error says what to install', async () => {
  await cp('dist/logs', join(folder, 'dist/logs'), { recursive: true });
  await cp('dist/engine', join(folder, 'dist/engine'), { recursive: true });
  await cp('dist/checks', join(folder, 'dist/checks'), { recursive: true });
  await writeFile(join(folder, 'dist/package.json'), '{"type":"module"}');
  const program = `
    import { readStepFile } from '${join(folder, 'dist/logs/steps/step-file.js')}';
    await readStepFile('s3://runs/x.safetensors').catch((error) => console.log(error.code, error.message));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect(stdout).toMatch(/^ERR_FILE s3:.*npm install @aws-sdk\/client-s3/);
});
