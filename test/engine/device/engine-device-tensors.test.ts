// Tensors on the GPU: what goes up comes down, memory ends when it should and is never taken from a job, and misuse is
// said.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ArgumentError, DeviceError, DisposedError } from '../../../src/checks/errors.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { DeviceTensor } from '../../../src/engine/tensor/device-tensor.js';
import type { Tensor } from '../../../src/engine/tensor/tensor.js';
import { collected } from '../engine-leaks.js';
import { emulatedPath, hasBackend, onGpu, openOnDevice, setEmulation, Trace } from './engine-device-backend.js';

beforeEach(() => setEmulation());
afterEach(() => setEmulation());

const emulatedOnly = describe.skipIf(emulatedPath === undefined);
const matrix = (): Tensor => ({ data: new Float32Array([-1, -2, -3, -4, -5, -6]), dtype: 'float32', shape: [2, 3] });
const labels = { own: [0, 1], lengths: [2, 2] };
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe.skipIf(!hasBackend)('upload and download', () => {
  const kinds = [
    ['float64', new Float64Array([1, -0, Number.NaN, 1e308, 5])],
    ['float32', new Float32Array([1, -0, Number.NaN, 3e38, 5])],
    ['float16', new Uint16Array([0x3c00, 0x8000, 0x7e01, 0x7bff, 1])],
    ['bfloat16', new Uint16Array([0x3f80, 0x8000, 0x7fc1, 0x7f7f, 1])],
  ] as const;
  it.each(kinds)('keep the bits of %s', async (dtype, data) => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload({ data, dtype, shape: [5] });
    expect(tensor).toBeInstanceOf(DeviceTensor);
    expect([tensor.dtype, tensor.shape, tensor.strides, tensor.device]).toEqual([dtype, [5], [1], 'cuda:0']);
    const back = await tensor.download();
    expect(Buffer.from(back.data.buffer, back.data.byteOffset, 5 * data.BYTES_PER_ELEMENT)).toEqual(
      Buffer.from(data.buffer),
    );
  });

  it('keeps strides and the place in a larger array', async () => {
    await using engine = await openOnDevice();
    const data = new Float64Array(40).map((_, i) => -i).subarray(3);
    const strided: Tensor = { data, dtype: 'float64', shape: [2, 3], strides: [10, 2] };
    await using tensor = await engine.upload(strided);
    const { data: down, shape, strides } = await tensor.download();
    expect([shape, strides, tensor.byteLength]).toEqual([[2, 3], [10, 2], 15 * 8]);
    expect([...down]).toEqual([...data.subarray(0, 15)]);
    const there = await engine.scoreStats(tensor, labels);
    const here = await engine.scoreStats(strided, labels);
    expect(there.argmax).toEqual(here.argmax);
    expect(there.matchedSeq).toEqual(here.matchedSeq);
  });

  it('of nothing is nothing', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload({ data: new Float32Array(0), dtype: 'float32', shape: [0, 7] });
    expect((await tensor.download()).data.length).toBe(0);
    expect((await engine.logitStats(tensor)).logsumexp).toEqual(new Float64Array(0));
  });

  it('of 96 MiB does not hold up the event loop', async () => {
    await using engine = await openOnDevice();
    const data = new Float32Array(new SharedArrayBuffer(96 * 2 ** 20)).fill(-1);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    const progress: number[] = [];
    await using tensor = await engine.upload(
      { data, dtype: 'float32', shape: [data.length] },
      { onProgress: (fraction) => progress.push(fraction) },
    );
    clearInterval(timer);
    expect(turns).toBeGreaterThan(1);
    expect(progress.at(-1)).toBe(1);
    const { data: down } = await tensor.download();
    expect([down.length, down[0], down.at(-1)]).toEqual([data.length, -1, -1]);
  });

  it('refuses negative strides and what is no tensor', async () => {
    await using engine = await openOnDevice();
    const data = new Float32Array(4);
    const negative = failure(engine.upload({ data, dtype: 'float32', shape: [2, 2], strides: [-2, 1] }));
    expect(await negative).toMatchObject({ argument: 'tensor.strides', message: /axis 0 is -2, expected 0 or more/ });
    expect(await failure(engine.upload(null as never))).toMatchObject({ argument: 'tensor' });
    expect(await failure(engine.upload({ data, dtype: 'float32', shape: [5] }))).toBeInstanceOf(ArgumentError);
    expect(await failure(engine.allocDevice('int8' as never, [1]))).toMatchObject({ argument: 'dtype' });
  });
});

describe.skipIf(!hasBackend)('memory', () => {
  it('that is too large is refused with what was asked and what is free, and the engine goes on', async () => {
    await using engine = await openOnDevice();
    const error = (await failure(engine.allocDevice('float64', [2 ** 40]))) as DeviceError;
    expect(error).toBeInstanceOf(DeviceError);
    expect([error.code, error.reason, error.askedBytes]).toEqual(['ERR_DEVICE', 'out_of_memory', 2 ** 43]);
    expect(error.freeBytes).toBeGreaterThan(0);
    await using tensor = await engine.upload(matrix());
    expect((await engine.scoreStats(tensor, labels)).matchedSeq).toEqual(new Float64Array([-1, -5]));
  });

  it('comes back with dispose', async () => {
    await using engine = await openOnDevice();
    const { freeBytes } = await engine.deviceMemory();
    const tensor = await engine.allocDevice('float32', [2 ** 22]);
    expect((await engine.deviceMemory()).freeBytes).toBeLessThanOrEqual(freeBytes - 2 ** 24);
    await tensor.dispose();
    expect(tensor.disposed).toBe(true);
    // A real GPU is not ours alone.
    if (!onGpu) expect((await engine.deviceMemory()).freeBytes).toBe(freeBytes);
  });

  it('is not taken from a job by dispose, which waits for it', async () => {
    setEmulation({ LAUNCH_US: 50_000 });
    await using engine = await openOnDevice();
    const rows = 512;
    const tensor = await engine.upload({
      data: new Float32Array(rows * 8).fill(-1),
      dtype: 'float32',
      shape: [rows, 8],
    });
    const start = performance.now();
    const running = engine.logitStats(tensor);
    const disposing = tensor.dispose();
    expect(await failure(engine.logitStats(tensor))).toBeInstanceOf(DisposedError);
    await disposing;
    if (!onGpu) expect(performance.now() - start).toBeGreaterThan(50);
    const stats = await running;
    expect(stats.logsumexp?.every((value) => Math.abs(value - (Math.log(8) - 1)) < 1e-6)).toBe(true);
  });
});

describe.skipIf(!hasBackend)('misuse', () => {
  it('is refused of a disposed tensor', async () => {
    await using engine = await openOnDevice();
    const tensor = await engine.upload(matrix());
    await Promise.all([tensor.dispose(), tensor.dispose()]);
    await tensor.dispose();
    for (const use of [
      () => engine.scoreStats(tensor, labels),
      () => engine.logitStats(tensor),
      () => engine.sumTokens(tensor, [3]),
      () => engine.tokenRowStats(tensor, [3], { own: [0] }),
      () => tensor.download(),
    ]) {
      const error = await failure(use());
      expect(error).toBeInstanceOf(DisposedError);
      expect((error as Error).message).toMatch(/the device tensor was disposed; upload or import it again/);
    }
  });

  it('is refused of a tensor after its engine', async () => {
    const engine = await openOnDevice();
    const tensor = await engine.upload(matrix());
    await engine.dispose();
    expect(tensor.disposed).toBe(true);
    expect(await failure(tensor.download())).toMatchObject({
      code: 'ERR_DISPOSED',
      message: /the engine was disposed/,
    });
    expect(await failure(engine.upload(matrix()))).toBeInstanceOf(DisposedError);
    await tensor.dispose();
  });

  it('is refused of another engine’s tensor', async () => {
    await using engine = await openOnDevice();
    await using other = await openOnDevice();
    await using cpu = await openEngine({ device: 'cpu', threads: 1 });
    await using tensor = await other.upload(matrix());
    const foreign = await failure(engine.scoreStats(tensor, labels));
    expect(foreign).toMatchObject({
      argument: 'sums.data',
      message: /of another engine, on cuda:0; expected one of this/,
    });
    expect(await failure(engine.sumTokens(matrix(), [3], { out: tensor }))).toBeInstanceOf(ArgumentError);
    expect(await failure(cpu.logitStats(tensor))).toMatchObject({
      message: /expected one of this engine, which has no GPU/,
    });
  });

  it('where only host memory will do', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload(matrix());
    const gathered = await failure(engine.gatherScores(tensor));
    expect(gathered).toMatchObject({ argument: 'sums.data', message: /pass what its download\(\) gives/ });
    expect(await failure(engine.upload(tensor))).toBeInstanceOf(ArgumentError);
  });

  it('of shapes, strides and dtypes that it does not have', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload(matrix());
    const view = (more: object): Tensor => ({ data: tensor, dtype: 'float32', shape: [2, 3], ...more });
    const cases: [object, string, RegExp][] = [
      [{ shape: [3, 3] }, 'sums.shape', /\[3, 3\] has 9 elements, but data has 6/],
      [{ strides: [4, 1] }, 'sums', /reach element 6, but data has 6/],
      [{ strides: [-3, 1] }, 'sums', /negative stride/],
      [{ dtype: 'float64' }, 'sums.dtype', /got float64, but the DeviceTensor is of float32/],
    ];
    for (const [more, argument, message] of cases) {
      expect(await failure(engine.scoreStats(view(more), labels))).toMatchObject({ argument, message });
    }
    const transposed = await engine.scoreStats(view({ shape: [3, 2], strides: [1, 3] }), {
      own: [0, 1, 0],
      lengths: [1, 1, 1],
    });
    expect([...transposed.matchedSeq]).toEqual([-1, -5, -3]);
  });
});

emulatedOnly('a tensor that nobody disposes', () => {
  /** The warnings of a forgotten tensor; it must be made in a function that has ended. */
  async function warningsOf(make: () => Promise<void>): Promise<(Error & { code?: string })[]> {
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on('warning', listen);
    await make();
    for (let turn = 0; turn < 50 && warnings.length === 0; turn++) {
      await collected();
      await sleep(5);
    }
    await collected();
    process.off('warning', listen);
    return warnings;
  }

  it('is freed and reported once, with where it came from if that is wanted', async () => {
    using trace = new Trace();
    await using engine = await openOnDevice();
    setEmulation({ TRACE: trace.path });
    const forget = async (): Promise<void> => {
      await engine.upload(matrix());
    };
    const [first, ...more] = await warningsOf(forget);
    expect(more).toEqual([]);
    expect(first?.code).toBe('COLLAPSAR_DEVICE_TENSOR_LEAK');
    expect(first?.message).toMatch(
      /^a DeviceTensor float32 \[2, 3\] of 24 bytes on cuda:0 was never disposed: .*COLLAPSAR_DEBUG=1/,
    );
    expect(trace.calls).toEqual(['alloc 0', 'upload 0', 'free 0']);
    process.env.COLLAPSAR_DEBUG = '1';
    try {
      const [named] = await warningsOf(forget);
      expect(named?.message).toMatch(/it was allocated\n.*engine-device-tensors\.test/s);
    } finally {
      delete process.env.COLLAPSAR_DEBUG;
    }
  });

  it('is not reported when it was disposed, or its engine', async () => {
    const warnings = await warningsOf(async () => {
      const engine = await openOnDevice();
      await (await engine.upload(matrix())).dispose();
      await engine.upload(matrix());
      await engine.dispose();
    });
    expect(warnings).toEqual([]);
  });

  it('lets its memory go with an engine that nobody holds any more', async () => {
    using trace = new Trace();
    setEmulation({ TRACE: trace.path });
    await warningsOf(async () => {
      const engine = await openOnDevice();
      await engine.upload(matrix());
    });
    for (let turn = 0; turn < 50 && trace.calls.at(-1) !== 'close 0'; turn++) {
      await collected();
      await sleep(5);
    }
    expect(trace.calls.slice(-2)).toEqual(['free 0', 'close 0']);
  });
});

emulatedOnly('a GPU that is lost', () => {
  it('fails what it was to do, in words; the CPU goes on under auto', async () => {
    await using engine = await openOnDevice({ device: 'auto' });
    const tensor = await engine.upload(matrix());
    setEmulation({ FAIL: 'lost' });
    const error = await failure(engine.scoreStats(tensor, labels));
    expect(error).toBeInstanceOf(DeviceError);
    expect(error).toMatchObject({ reason: 'device_lost', message: /start a new process/ });
    expect(await failure(tensor.download())).toMatchObject({ reason: 'device_lost' });
    expect((await engine.scoreStats(matrix(), labels)).matchedSeq).toEqual(new Float64Array([-1, -5]));
    await tensor.dispose();
  });
});

emulatedOnly('abort', () => {
  it('stops an upload and frees what it had', async () => {
    using trace = new Trace();
    await using engine = await openOnDevice();
    const { freeBytes } = await engine.deviceMemory();
    const controller = new AbortController();
    setEmulation({ TRACE: trace.path });
    const data = new Float32Array(new SharedArrayBuffer(2 ** 28));
    const uploading = engine.upload({ data, dtype: 'float32', shape: [2 ** 26] }, { signal: controller.signal });
    while (!trace.calls.includes('upload 0')) await sleep(1);
    controller.abort();
    await expect(uploading).rejects.toBe(controller.signal.reason);
    expect((await engine.deviceMemory()).freeBytes).toBe(freeBytes);
  });

  it('stops an operation at once', async () => {
    await using engine = await openOnDevice();
    const tensor = await engine.upload({ data: new Float32Array(2 ** 16), dtype: 'float32', shape: [2 ** 13, 8] });
    setEmulation({ LAUNCH_US: 800_000 }); // 8 starts, of 1024 rows each
    const controller = new AbortController();
    const running = engine.logitStats(tensor, { signal: controller.signal });
    await sleep(20);
    const start = performance.now();
    controller.abort();
    await expect(running).rejects.toBe(controller.signal.reason);
    // Before the eight have run, which take six seconds.
    expect(performance.now() - start).toBeLessThan(4000);
    setEmulation();
    expect((await engine.logitStats(tensor)).rows).toBe(2 ** 13);
    await tensor.dispose();
  });

  it('is refused when the engine is disposed in the middle of a job', async () => {
    using trace = new Trace();
    const engine = await openOnDevice();
    const tensor = await engine.upload({ data: new Float32Array(2 ** 16), dtype: 'float32', shape: [2 ** 13, 8] });
    setEmulation({ LAUNCH_US: 200_000, TRACE: trace.path });
    const running = failure(engine.logitStats(tensor));
    await sleep(20);
    await engine.dispose();
    expect(await running).toBeInstanceOf(DisposedError);
    expect(trace.calls).toEqual(['logit_stats 0', 'free 0', 'close 0']);
  });
});
