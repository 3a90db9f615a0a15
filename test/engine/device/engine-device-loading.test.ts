// Finding and trying the CUDA backend: what does not work there must leave this process alone and be said in words.
import { copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceError } from '../../../src/checks/errors.js';
import { addonPath } from '../../../src/engine/addon.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import {
  emulatedPath,
  hasBackend,
  onGpu,
  openOnDevice,
  setEmulation,
  Trace,
  useBackend,
} from './engine-device-backend.js';

const folder = temporaryDirectory();
beforeEach(() => {
  setEmulation();
  useBackend();
});
afterEach(() => {
  setEmulation();
  delete process.env.COLLAPSAR_CUDA_PROBE_SECONDS;
});

async function refusal(device: 'cuda' | `cuda:${number}` = 'cuda'): Promise<DeviceError> {
  const error = await openEngine({ device, threads: 1 }).then(
    async (engine) => {
      await engine.dispose();
      return new Error('it opened');
    },
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(DeviceError);
  return error as DeviceError;
}

/** What `auto` says where `cuda` throws. */
async function fallback(): Promise<string | null> {
  const engine = await openEngine({ device: 'auto', threads: 1 });
  expect(engine.info.device).toBe('cpu');
  expect(engine.info.gpu).toBeNull();
  const { sums } = await engine.sumTokens({ data: new Float64Array([-1, -2]), dtype: 'float64', shape: [1, 2] }, [2]);
  expect(sums.data[0]).toBe(-3);
  await engine.dispose();
  return engine.info.fallback;
}

describe.skipIf(emulatedPath === undefined)('a backend that does not work', () => {
  const ways: [way: string, reason: string, words: RegExp][] = [
    // AddressSanitizer makes an exit status of the signal.
    ['crash', 'crashed', /(was ended by SIGSEGV|ended with status \d+).*npx collapsar build --cuda on/],
    ['exit', 'crashed', /ended without an answer .*nvidia-smi.*npx collapsar build --cuda on/],
    ['version', 'not_loadable', /is of another version of collapsar .*npx collapsar build/],
    ['no_driver', 'no_driver', /there is no NVIDIA driver on this machine .*install one/],
    ['driver_too_old', 'driver_too_old', /driver is for CUDA 11\.0, this build needs 13\.0: update the driver/],
    ['no_device', 'no_device', /counting GPUs.*see nvidia-smi, and whether CUDA_VISIBLE_DEVICES/],
    ['busy', 'failed', /other processes have it.*see nvidia-smi, and try again/],
    ['wrong', 'failed', /computes wrong results/],
    ['lost', 'device_lost', /the GPU or its context is lost to this process: start a new process/],
  ];
  it.each(ways)('%s: auto falls back and says why, cuda throws', async (way, reason, words) => {
    setEmulation({ FAIL: way });
    expect(await fallback()).toMatch(words);
    const error = await refusal();
    expect(error.reason).toBe(reason);
    expect(error.message).toMatch(words);
    expect(error.message).toMatch(/^cuda: .*device 'cpu' needs no GPU$/s);
  });

  it('was busy: the next engine asks again', async () => {
    setEmulation({ FAIL: 'busy' });
    expect((await refusal()).message).toMatch(/other processes have it/);
    setEmulation();
    await using engine = await openOnDevice();
    expect(engine.info.device).toBe('cuda:0');
  });

  it('hangs: its process is ended after the time limit', async () => {
    setEmulation({ FAIL: 'hang' });
    process.env.COLLAPSAR_CUDA_PROBE_SECONDS = '0.5';
    const error = await refusal();
    expect(error.reason).toBe('timeout');
    expect(error.message).toMatch(/did not answer within 0\.5 s/);
  });

  it('is waited for as long as is asked, also where that is for ever', async () => {
    process.env.COLLAPSAR_CUDA_PROBE_SECONDS = 'Infinity';
    await using engine = await openOnDevice();
    expect(engine.info.device).toBe('cuda:0');
  });

  it('hangs: an abort need not wait for the time limit', async () => {
    setEmulation({ FAIL: 'hang' });
    const controller = new AbortController();
    const opening = openEngine({ signal: controller.signal });
    controller.abort();
    await expect(opening).rejects.toBe(controller.signal.reason);
    // The next one tries afresh.
    setEmulation();
    const engine = await openEngine({ threads: 1 });
    expect(engine.info.device).toBe('cuda:0');
    await engine.dispose();
  });

  it('is missing', async () => {
    useBackend(join(folder, 'none.so'));
    expect(await fallback()).toMatch(/there is no file .*none\.so, which COLLAPSAR_CUDA_BACKEND names/);
    expect((await refusal()).reason).toBe('not_built');
  });

  it("is a bare name: the file of that name here, not one among the system's libraries", async () => {
    const before = process.cwd();
    process.chdir(folder);
    try {
      copyFileSync(emulatedPath as string, 'backend.so');
      useBackend('backend.so');
      const engine = await openEngine({ device: 'cuda', threads: 1 });
      expect(engine.info.device).toBe('cuda:0');
      await engine.dispose();
      // The name of a library that is there, on any Linux.
      writeFileSync('libc.so.6', 'this is no library');
      useBackend('libc.so.6');
      const error = await refusal();
      expect(error.message).toContain(join(folder, 'libc.so.6'));
      expect(error.message).toMatch(/does not load/);
    } finally {
      process.chdir(before);
    }
  });

  it('is no library', async () => {
    const path = join(folder, 'text.so');
    writeFileSync(path, 'this is no library');
    useBackend(path);
    expect(await fallback()).toMatch(/does not load: .*text\.so/);
    expect((await refusal()).reason).toBe('not_loadable');
  });

  it('is a library, but no backend', async () => {
    useBackend(addonPath());
    const error = await refusal();
    expect(error.reason).toBe('not_loadable');
    expect(error.message).toMatch(/no CUDA backend of collapsar: it has no function collapsar_cuda_backend/);
  });

  it('fails in this process although it worked in the other', async () => {
    const engine = await openEngine({ threads: 1 });
    expect(engine.info.device).toBe('cuda:0');
    setEmulation({ FAIL: 'busy' });
    const upload = () => engine.upload({ data: new Float32Array(4), dtype: 'float32', shape: [4] });
    await expect(upload()).rejects.toThrow(/other processes have it/);
    // Another process held it for a while.
    setEmulation();
    await (await upload()).dispose();
    await engine.dispose();
  });
});

describe.skipIf(!hasBackend)('devices', () => {
  it('are chosen by number, and named with what they are', async () => {
    const engine = await openEngine({ device: 'cuda:0', threads: 1 });
    const { device, gpu, fallback } = engine.info;
    expect([device, gpu?.index, gpu?.supported, fallback]).toEqual(['cuda:0', 0, true, null]);
    expect(gpu?.name).not.toBe('');
    expect(gpu?.computeCapability).toMatch(/^\d+\.\d$/);
    expect(gpu?.totalBytes).toBeGreaterThan(0);
    await engine.dispose();
  });

  it('that are not there are refused with those that are', async () => {
    const error = await refusal('cuda:99');
    expect(error.reason).toBe('bad_device');
    expect(error.message).toMatch(/^cuda:99: there is no device 99; there (is|are) cuda:0 \(.+\)/);
  });

  it('can be used by two engines at once', async () => {
    const engines = await Promise.all([openEngine({ device: 'cuda' }), openEngine({ device: 'cuda' })]);
    const shape = [1, 3];
    const data = new Float32Array([-1, -2, -3]);
    const sums = await Promise.all(engines.map((engine) => engine.sumTokens({ data, dtype: 'float32', shape }, [3])));
    expect(sums.map((each) => each.sums.data[0])).toEqual([-6, -6]);
    await Promise.all(engines.map((engine) => engine.dispose()));
  });

  it('an engine of the CPU has none, and says so', async () => {
    const engine = await openEngine({ device: 'cpu', threads: 1 });
    expect([engine.info.device, engine.info.gpu, engine.info.fallback]).toEqual(['cpu', null, null]);
    const error = await engine.allocDevice('float32', [1]).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(DeviceError);
    expect((error as Error).message).toMatch(/^allocDevice: this engine has no GPU: it was opened with device 'cpu'/);
    await engine.dispose();
  });
});

describe.skipIf(emulatedPath === undefined)('when the GPU is opened', () => {
  it('auto: with the first tensor that goes there; host tensors stay on the CPU', async () => {
    using trace = new Trace();
    const engine = await openEngine({ device: 'auto', threads: 1 });
    setEmulation({ TRACE: trace.path });
    const host = { data: new Float64Array([-1, -2]), dtype: 'float64' as const, shape: [1, 2] };
    await engine.sumTokens(host, [2]);
    expect(trace.calls).toEqual([]);
    const device = await engine.upload(host);
    await engine.sumTokens(device, [2]);
    await engine.sumTokens(host, [2]);
    await device.dispose();
    await engine.dispose();
    expect(trace.calls).toEqual(['open 0', 'alloc 0', 'upload 0', 'sum_tokens 0', 'free 0', 'close 0']);
  });

  it('cuda:1: with the engine; host tensors go through it', async () => {
    using trace = new Trace();
    setEmulation({ TRACE: trace.path });
    const engine = await openEngine({ device: 'cuda:1', threads: 1 });
    trace.clear();
    const { sums } = await engine.sumTokens({ data: new Float64Array([-1, -2]), dtype: 'float64', shape: [1, 2] }, [2]);
    expect(sums.data[0]).toBe(-3);
    await engine.dispose();
    expect(trace.calls).toEqual(['sum_tokens 1', 'close 1']);
  });

  it('not at all for cpu', async () => {
    using trace = new Trace();
    setEmulation({ TRACE: trace.path, FAIL: 'crash' });
    await (await openEngine({ device: 'cpu', threads: 1 })).dispose();
    expect(trace.calls).toEqual([]);
  });

  it('is tried once for a process', async () => {
    using trace = new Trace();
    setEmulation({ TRACE: trace.path });
    const engines = await Promise.all([1, 2, 3].map(() => openEngine({ device: 'auto', threads: 1 })));
    expect(trace.calls.filter((call) => call.startsWith('open'))).toHaveLength(1);
    await Promise.all(engines.map((engine) => engine.dispose()));
  });
});

// The real backend on a machine without a driver: CI's, for one. COLLAPSAR_TEST_BACKEND names one that stands
// elsewhere.
const built = process.env.COLLAPSAR_TEST_BACKEND ?? join(dirname(addonPath()), 'collapsar_cuda.so');
const hasDriver = existsSync('/dev/nvidiactl') || existsSync('/dev/dxg');
describe.skipIf(onGpu || !existsSync(built) || hasDriver)('the backend that was built', () => {
  it('loads without a driver and says that there is none', async () => {
    useBackend(built);
    expect(await fallback()).toMatch(/driver/i);
    expect((await refusal()).reason).toBe('no_driver');
  });
});
