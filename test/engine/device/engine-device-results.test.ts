// Results that stay on the GPU: the bits that the host would get, memory that is freed by whoever has it last, misuse.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ArgumentError, DeviceError, DisposedError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { DeviceTensor } from '../../../src/engine/tensor/device-tensor.js';
import type { HostIntegers, HostTensor, Tensor } from '../../../src/engine/tensor/tensor.js';
import { collected } from '../engine-leaks.js';
import {
  emulatedPath,
  freeBytesOf,
  hasBackend,
  onGpu,
  openOnDevice,
  setEmulation,
  Trace,
} from './engine-device-backend.js';

beforeEach(() => setEmulation());
afterEach(() => setEmulation());

const emulatedOnly = describe.skipIf(emulatedPath === undefined);
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

/** Negative numbers without a pattern that a row could share with another. */
function hostTensor(shape: number[]): HostTensor {
  const data = new Float32Array(shape.reduce((a, b) => a * b, 1)).map((_, i) => -((i * 7919) % 1009) / 64);
  return { data, dtype: 'float32', shape };
}

/** The same fields on the host: tensors as the arrays that download() gives, nested results likewise. */
async function downloaded(result: object): Promise<Record<string, unknown>> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(result)) {
    if (value instanceof DeviceTensor) fields[name] = (await value.download()).data;
    else fields[name] = name === 'stats' ? await downloaded(value) : value;
  }
  return fields;
}

/** Bits, not values: NaN equals itself, and 0 is not -0. */
function expectSameBits(actual: Record<string, unknown>, expected: object): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [name, value] of Object.entries(expected)) {
    const other = actual[name];
    if (!ArrayBuffer.isView(value)) {
      expect(other, name).toEqual(value);
      continue;
    }
    const bytes = (view: ArrayBufferView) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
    expect(Object.getPrototypeOf(other), name).toBe(Object.getPrototypeOf(value));
    expect(bytes(other as ArrayBufferView).equals(bytes(value)), name).toBe(true);
  }
}

const rows = 12;
const columns = 33;
const own = Array.from({ length: rows }, (_, row) => (row * 5) % columns);
const lengths = Array.from({ length: rows }, (_, row) => row % 4);

/** With the tensor on the GPU and with it on the host. */
async function fromBoth(tensor: HostTensor, check: (engine: Engine, tensor: Tensor) => Promise<void>): Promise<void> {
  await using engine = await openOnDevice();
  await using device = await engine.upload(tensor);
  await check(engine, device);
  await check(engine, tensor);
}

describe.skipIf(!hasBackend)('results on the GPU have the bits of those on the host', () => {
  it('logitStats: all fields, some of them, and means that stay on the host', async () => {
    const mask = own.map((_, row) => row % 5 !== 3);
    const sequences = { lengths: [5, 0, rows - 5] };
    await fromBoth(hostTensor([rows, columns]), async (engine, logits) => {
      for (const options of [{}, { targets: own }, { targets: own, temperature: 0.7, mask, sequences }]) {
        await using kept = await engine.logitStats(logits, { ...options, out: 'device' });
        expectSameBits(await downloaded(kept), await engine.logitStats(logits, options));
        expect([kept.entropy?.dtype, kept.entropy?.shape, kept.argmax?.dtype]).toEqual(['float64', [rows], 'int32']);
      }
      await using some = await engine.logitStats(logits, { sequences, mask, out: { device: ['argmax'] } });
      expectSameBits(await downloaded(some), await engine.logitStats(logits, { sequences, mask, out: ['argmax'] }));
      expect(some.meanEntropy).toBeInstanceOf(Float64Array);
    });
  });

  it('scoreStats', async () => {
    const signatures = Array.from({ length: columns }, (_, column) => column % 7);
    await fromBoth(hostTensor([rows, columns]), async (engine, sums) => {
      for (const options of [
        { own, lengths },
        { own, lengths, signatures, topK: 3 },
        { own, lengths, topK: 0 },
      ]) {
        await using kept = await engine.scoreStats(sums, { ...options, out: 'device' });
        expectSameBits(await downloaded(kept), await engine.scoreStats(sums, options));
        expect(kept.topColumns.shape).toEqual([rows, kept.topK]);
      }
    });
  });

  it('tokenRowStats, whose sums another operation reads where they are', async () => {
    await fromBoth(hostTensor([columns, rows, 4]), async (engine, logprobs) => {
      await using kept = await engine.tokenRowStats(logprobs, lengths, { own, out: 'device' });
      const { sums, ...host } = await engine.tokenRowStats(logprobs, lengths, { own });
      const { stats, sums: keptSums, ...rest } = await downloaded(kept);
      expectSameBits(stats as Record<string, unknown>, host.stats);
      expectSameBits({ ...rest, sums: keptSums }, { lengths: host.lengths, firstInvalid: null, sums: sums.data });
      expect([kept.sums.dtype, kept.sums.shape]).toEqual(['float64', [rows, columns]]);
      expect(await engine.scoreStats(kept.sums, { own, lengths })).toEqual(host.stats);
    });
  });

  it('also for host tensors under auto, and where there are no rows', async () => {
    await using engine = await openOnDevice({ device: 'auto' });
    const tensor = hostTensor([rows, columns]);
    await using kept = await engine.logitStats(tensor, { out: 'device' });
    await using onDevice = await openOnDevice();
    expectSameBits(await downloaded(kept), await onDevice.logitStats(tensor));
    const tokens = hostTensor([columns, rows, 4]);
    await using summed = await engine.tokenRowStats(tokens, lengths, { own, out: 'device' });
    expect(summed.sums).toBeInstanceOf(DeviceTensor);
    await using none = await engine.scoreStats(hostTensor([0, 3]), { own: [], lengths: [], out: 'device' });
    expectSameBits(await downloaded(none), await engine.scoreStats(hostTensor([0, 3]), { own: [], lengths: [] }));
  });
});

describe.skipIf(!hasBackend)('the memory of results on the GPU', () => {
  it('is freed by dispose, of all or one by one', async () => {
    await using engine = await openOnDevice();
    const freeBytes = await freeBytesOf(engine);
    const kept = await engine.tokenRowStats(hostTensor([3, 4, 5]), [1, 2, 3, 4], { own: [0, 1, 2, 0], out: 'device' });
    await kept.stats.argmax.dispose();
    await kept.dispose();
    await kept.dispose();
    expect([kept.sums.disposed, kept.stats.matchedSeq.disposed]).toEqual([true, true]);
    expect(await failure(kept.sums.download())).toBeInstanceOf(DisposedError);
    if (!onGpu) expect(await freeBytesOf(engine)).toBe(freeBytes); // a real GPU is not ours alone
  });

  it('leaves the input to dispose() right after the call', async () => {
    await using engine = await openOnDevice();
    const tensor = await engine.upload(hostTensor([rows, columns]));
    const running = engine.logitStats(tensor, { out: 'device' });
    await tensor.dispose();
    await using kept = await running;
    expect((await kept.argmax?.download())?.data).toHaveLength(rows);
  });
});

emulatedOnly('the memory of results on the GPU that nobody gets', () => {
  /** Expects all memory that the call takes to come back; resolves with its failure. */
  async function failing(engine: Engine, call: () => Promise<unknown>): Promise<unknown> {
    const freeBytes = await freeBytesOf(engine);
    const error = await failure(call());
    const settings = process.env.COLLAPSAR_EMULATED_GPU_BYTES;
    setEmulation(settings === undefined ? {} : { BYTES: settings });
    expect(await freeBytesOf(engine)).toBe(freeBytes);
    return error;
  }

  it('is freed where there is not enough for all fields', async () => {
    await using engine = await openOnDevice();
    setEmulation({ BYTES: 4096 });
    const sums = hostTensor([100, 2]);
    const error = await failing(engine, () =>
      engine.scoreStats(sums, { own: new Int32Array(100), lengths: new Int32Array(100), out: 'device' }),
    );
    expect(error).toBeInstanceOf(DeviceError);
    expect(error).toMatchObject({ reason: 'out_of_memory', askedBytes: 800, freeBytes: 96 });
  });

  it('is freed when the job is aborted, or its onProgress throws', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload(hostTensor([2 ** 12, 8]));
    for (const stop of ['abort', 'throw']) {
      const controller = new AbortController();
      const reason = new Error(stop);
      setEmulation({ LAUNCH_US: 100_000 });
      const error = await failing(engine, async () => {
        const onProgress = (): void => {
          if (stop === 'throw') throw reason;
          controller.abort(reason);
        };
        return engine.logitStats(tensor, { out: 'device', signal: controller.signal, onProgress });
      });
      expect(error).toBe(reason);
    }
  });

  it('is freed when the abort comes after the end, or the last progress throws', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.upload(hostTensor([rows, columns]));
    const late = await failing(engine, () => {
      const controller = new AbortController();
      const running = engine.logitStats(tensor, { out: 'device', signal: controller.signal });
      // The event loop stands still meanwhile, so that the job has ended when the signal is given.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      controller.abort(new Error('late'));
      return running;
    });
    expect(late).toMatchObject({ message: 'late' });
    const reason = new Error('no more');
    const onProgress = (fraction: number): void => {
      if (fraction === 1) throw reason;
    };
    expect(await failing(engine, () => engine.logitStats(tensor, { out: 'device', onProgress }))).toBe(reason);
  });

  it('goes with an engine that is disposed meanwhile', async () => {
    using trace = new Trace();
    const engine = await openOnDevice();
    const tensor = await engine.upload(hostTensor([2 ** 12, 8]));
    setEmulation({ LAUNCH_US: 200_000, TRACE: trace.path });
    const running = failure(engine.logitStats(tensor, { out: { device: ['entropy', 'argmax'] } }));
    await sleep(20);
    await engine.dispose();
    expect(await running).toBeInstanceOf(DisposedError);
    expect(trace.calls).toEqual(['alloc 0', 'alloc 0', 'logit_stats 0', 'free 0', 'free 0', 'free 0', 'close 0']);
  });

  it('is reported only for a result that nobody disposed', async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on('warning', listen);
    await using engine = await openOnDevice();
    const use = async (dispose: boolean): Promise<void> => {
      const kept = await engine.logitStats(hostTensor([rows, columns]), { out: { device: ['argmax'] } });
      if (dispose) await kept.dispose();
    };
    await use(true);
    await collected();
    await sleep(20);
    expect(warnings).toEqual([]);
    await use(false);
    for (let turn = 0; turn < 50 && warnings.length === 0; turn++) {
      await collected();
      await sleep(5);
    }
    process.off('warning', listen);
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^a DeviceTensor int32 \[12\] of 48 bytes on cuda:0 was never disposed/),
    ]);
  });
});

describe.skipIf(!hasBackend)('misuse of results on the GPU', () => {
  it('is refused by an engine without a GPU', async () => {
    await using cpu = await openEngine({ device: 'cpu', threads: 1 });
    const tensor = hostTensor([rows, columns]);
    for (const [name, call] of Object.entries({
      logitStats: () => cpu.logitStats(tensor, { out: 'device' }),
      scoreStats: () => cpu.scoreStats(tensor, { own, lengths, out: 'device' }),
      tokenRowStats: () => cpu.tokenRowStats(hostTensor([columns, rows, 4]), lengths, { own, out: 'device' }),
    })) {
      const error = await failure(call());
      expect(error).toBeInstanceOf(DeviceError);
      expect(error).toMatchObject({
        reason: 'no_device',
        message: expect.stringContaining(`${name}: this engine has`),
      });
    }
  });

  it('names what is wrong with options.out', async () => {
    await using engine = await openOnDevice();
    const tensor = hostTensor([rows, columns]);
    const scores = engine.scoreStats(tensor, { own, lengths, out: 'gpu' as never });
    expect(await failure(scores)).toMatchObject({ argument: 'options.out', message: /got "gpu", expected 'device'/ });
    const some = engine.logitStats(tensor, { out: { device: ['perplexity' as never] } });
    expect(await failure(some)).toMatchObject({ argument: 'options.out', message: /got "perplexity"/ });
    const targets = await failure(engine.logitStats(tensor, { out: { device: ['rankAbove'] } }));
    expect(targets).toMatchObject({ argument: 'options.targets' });
  });

  it('int32 is no input, and host operations say what they want', async () => {
    await using engine = await openOnDevice();
    await using other = await openOnDevice();
    await using kept = await engine.scoreStats(hostTensor([rows, columns]), { own, lengths, out: 'device' });
    const { topColumns, matchedSeq } = kept;
    const integers: DeviceTensor<HostIntegers> = topColumns;
    // @ts-expect-error: neither do the types allow it
    const asTensor: Tensor = integers;
    for (const use of [
      () => engine.logitStats(asTensor),
      () => engine.scoreStats(asTensor, { own, lengths }),
      () => engine.sumTokens(asTensor, lengths),
      () => engine.gatherScores(asTensor),
      () => engine.upload(asTensor),
    ]) {
      const error = await failure(use());
      expect(error).toBeInstanceOf(ArgumentError);
      expect(error).toMatchObject({ message: expect.stringMatching(/got int32, .* no operation takes: download\(\)/) });
    }
    const disguised = { data: integers as never, dtype: 'float32' as const, shape: [rows, 8] };
    expect(await failure(engine.logitStats(disguised))).toMatchObject({
      argument: 'logits.dtype',
      message: /got float32, but the DeviceTensor is of int32/,
    });
    expect(await failure(engine.allocDevice('int32' as never, [1]))).toMatchObject({ argument: 'dtype' });
    const row = { data: matchedSeq, dtype: 'float64' as const, shape: [1, rows] };
    expect((await engine.logitStats(row)).columns).toBe(rows);
    expect(await failure(other.logitStats(row))).toMatchObject({ message: /of another engine/ });
    expect(await failure(engine.stepMoments(kept as never, { own, lengths }))).toMatchObject({
      argument: 'stats.matchedSeq',
      message: /a DeviceTensor, expected memory of the host/,
    });
  });
});
