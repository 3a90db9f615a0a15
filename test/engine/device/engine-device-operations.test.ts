// The operations on tensors of the GPU and on host tensors that go through it: the CPU's results to the accuracy gates,
// indices and counts exactly.
import { beforeEach, describe, expect, it } from 'vitest';
import { DeviceError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import type { LogitStats } from '../../../src/engine/operations/logit-fields.js';
import type { RowStats } from '../../../src/engine/operations/row-stats.js';
import type { DeviceTensor } from '../../../src/engine/tensor/device-tensor.js';
import type { DType, HostTensor, Tensor, TensorData } from '../../../src/engine/tensor/tensor.js';
import { crossScoreMetrics } from '../../../src/metrics/cross-score-metrics.js';
import { Monitor } from '../../../src/monitor/monitor.js';
import { uniformNumbers } from '../../support/random-numbers.js';
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
const emulatedOnly = describe.skipIf(emulatedPath === undefined);

function hostTensor(dtype: DType, shape: number[], seed: number, span = 8): HostTensor {
  const next = uniformNumbers(seed);
  const values = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => -span * next());
  const bits = (value: number): number => new Uint32Array(new Float32Array([value]).buffer)[0] as number;
  const data: TensorData =
    dtype === 'float64'
      ? Float64Array.from(values)
      : dtype === 'float32'
        ? Float32Array.from(values)
        : dtype === 'bfloat16'
          ? Uint16Array.from(values, (value) => bits(value) >>> 16)
          : Uint16Array.from(values, (value) => 0x8000 | Math.floor(-value * 1000)); // some float16 below zero
  return { data, dtype, shape };
}

/** Within `gate` of each other, or the same special value. */
function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, gate: number, name: string): void {
  expect(actual.length, name).toBe(expected.length);
  for (let i = 0; i < expected.length; i++) {
    const [a, e] = [actual[i] as number, expected[i] as number];
    if (Object.is(a, e) || Math.abs(a - e) <= gate * Math.max(1, Math.abs(e))) continue;
    expect.fail(`${name}[${i}] is ${a}, expected ${e} within ${gate}`);
  }
}

const integerFields = new Set(['argmax', 'rankAbove', 'rankEqual', 'hitRank', 'topColumns', 'rows', 'columns', 'topK']);

function expectSame(actual: LogitStats | RowStats, expected: LogitStats | RowStats, gate: number): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [name, value] of Object.entries(expected)) {
    const other = (actual as unknown as Record<string, Float64Array>)[name];
    if (integerFields.has(name)) expect(other, name).toEqual(value);
    else expectClose(other ?? [], value, gate, name);
  }
}

/** Two engines and the tensor on both; the CPU's is what is expected. */
async function onBoth(
  tensor: HostTensor,
  check: (there: { engine: Engine; tensor: Tensor }[], cpu: Engine) => Promise<void>,
): Promise<void> {
  await using engine = await openOnDevice();
  await using cpu = await openEngine({ device: 'cpu', threads: 2 });
  await using device: DeviceTensor = await engine.upload(tensor);
  await check(
    [
      { engine, tensor: device },
      { engine, tensor },
    ],
    cpu,
  );
}

const dtypes = ['float64', 'float32', 'float16', 'bfloat16'] as const;
// As docs/reference/logits.md says how exact; the CPU's own error comes on top.
const gates: Record<DType, number> = { float64: 1e-12, float32: 2e-6, float16: 2e-6, bfloat16: 2e-6 };

describe.skipIf(!hasBackend)('logitStats', () => {
  it.each(dtypes)('gives all fields of %s, with temperature, mask and sequences', async (dtype) => {
    const logits = hostTensor(dtype, [24, 1003], 1);
    const next = uniformNumbers(2);
    const targets = Array.from({ length: 24 }, () => Math.floor(1003 * next()));
    const mask = Array.from({ length: 24 }, (_, row) => row % 5 !== 3);
    await onBoth(logits, async (there, cpu) => {
      for (const options of [
        { targets },
        { targets, temperature: 0.7, mask, sequences: { lengths: [10, 0, 14] } },
        { out: ['entropy' as const] },
        { sequences: { offsets: [2, 5, 24] }, mask },
      ]) {
        const expected = await cpu.logitStats(logits, options);
        for (const { engine, tensor } of there) {
          expectSame(await engine.logitStats(tensor, options), expected, gates[dtype]);
        }
      }
    });
  });

  it('special values, and strides of every kind', async () => {
    const data = Float32Array.from({ length: 5 * 8 }, (_, i) => -(i % 7));
    data.set([Number.NaN], 3);
    data.set([Number.POSITIVE_INFINITY], 8 + 2);
    data.fill(Number.NEGATIVE_INFINITY, 16, 24);
    data.set([Number.NEGATIVE_INFINITY], 24);
    const whole: HostTensor = { data, dtype: 'float32', shape: [5, 8] };
    await using engine = await openOnDevice();
    await using cpu = await openEngine({ device: 'cpu', threads: 1 });
    await using device = await engine.upload(whole);
    const targets = [0, 1, 2, 3, 4];
    const views = [
      { shape: [5, 8] },
      { shape: [5, 4], strides: [8, 2], targets: [0, 1, 2, 3, 0] },
      { shape: [8, 5], strides: [1, 8], targets: [0, 1, 2, 3, 4, 0, 1, 2] },
      { shape: [5, 6], strides: [0, 1] },
    ];
    for (const { targets: own = targets, ...view } of views) {
      const expected = await cpu.logitStats({ ...whole, ...view }, { targets: own });
      const there = { data: device, dtype: 'float32' as const, ...view };
      expectSame(await engine.logitStats(there, { targets: own }), expected, 2e-6);
    }
  });
});

describe.skipIf(!hasBackend)('scoreStats', () => {
  it.each(dtypes)('gives all fields of %s', async (dtype) => {
    const sums = hostTensor(dtype, [37, 129], 3, 30);
    const own = Array.from({ length: 37 }, (_, row) => (row * 31) % 129);
    const lengths = own.map((_, row) => row % 11);
    const signatures = Array.from({ length: 129 }, (_, column) => (column % 40 === 0 ? 0 : column));
    await onBoth(sums, async (there, cpu) => {
      for (const options of [
        { own, lengths },
        { own, lengths, signatures, topK: 3 },
      ]) {
        const expected = await cpu.scoreStats(sums, options);
        for (const { engine, tensor } of there) {
          expectSame(await engine.scoreStats(tensor, options), expected, gates[dtype]);
        }
      }
    });
  });
});

describe.skipIf(!hasBackend)('sumTokens', () => {
  const lengths = [5, 0, 9, 3];

  it.each(dtypes)('sums %s, padded and packed, into any columns', async (dtype) => {
    const padded = hostTensor(dtype, [3, 4, 9], 4);
    const packed = { ...padded, shape: [3, 36] };
    await onBoth(padded, async (there, cpu) => {
      for (const { engine, tensor } of there) {
        const expected = await cpu.sumTokens(padded, lengths);
        const actual = await engine.sumTokens(tensor, lengths);
        expectClose(actual.sums.data as Float64Array, expected.sums.data, 1e-12, 'sums');
        expect([actual.lengths, actual.firstInvalid]).toEqual([expected.lengths, null]);
        const options = { offsets: [20, 0, 3, 30], columns: [2, 0, 1] };
        const there = await engine.sumTokens({ data: tensor.data, dtype, shape: [3, 36] }, lengths, options);
        const here = await cpu.sumTokens(packed, lengths, options);
        expectClose(there.sums.data as Float64Array, here.sums.data, 1e-12, 'packed sums');
        const out = engine.alloc('float64', [4, 5]);
        out.data.fill(7);
        await engine.sumTokens(tensor, lengths, { out, columns: [4, 1, 0] });
        expect(out.data[2]).toBe(7);
        expectClose([out.data[4] as number], [expected.sums.data[0] as number], 1e-12, 'out');
      }
    });
  });

  it('leaves the sums on the GPU on request, where scoreStats reads them', async () => {
    const logprobs = hostTensor('float32', [3, 4, 9], 5);
    await onBoth(logprobs, async (there, cpu) => {
      const { sums } = await cpu.sumTokens(logprobs, lengths);
      for (const { engine, tensor } of there) {
        const { sums: kept } = await engine.sumTokens(tensor, lengths, { out: 'device' });
        expect([kept.device, kept.dtype, kept.shape]).toEqual(['cuda:0', 'float64', [4, 3]]);
        expectClose((await kept.download()).data, sums.data, 1e-12, 'sums');
        const labels = { own: [0, 1, 2, 0], lengths };
        expectSame(await engine.scoreStats(kept, labels), await cpu.scoreStats(sums, labels), 1e-12);
        const again = await engine.sumTokens(tensor, lengths, { out: kept, columns: [2, 1, 0] });
        expect(again.sums).toBe(kept);
        const mirrored = await cpu.sumTokens(logprobs, lengths, { columns: [2, 1, 0] });
        expectClose((await kept.download()).data, mirrored.sums.data, 1e-12, 'mirrored sums');
        await kept.dispose();
      }
    });
  });

  it('names the first NaN or +inf', async () => {
    const logprobs = hostTensor('float32', [3, 4, 9], 6);
    logprobs.data[1 * 36 + 2 * 9 + 4] = Number.NaN;
    logprobs.data[1 * 36 + 0 * 9 + 7] = Number.NaN; // past the row's length
    logprobs.data[2 * 36] = Number.POSITIVE_INFINITY;
    await onBoth(logprobs, async (there) => {
      for (const { engine, tensor } of there) {
        const { firstInvalid } = await engine.sumTokens(tensor, lengths);
        expect(firstInvalid).toEqual({ prompt: 1, row: 2, token: 4 });
      }
    });
  });

  it('says what is wrong with arguments as the CPU does', async () => {
    await onBoth(hostTensor('float32', [3, 4, 9], 7), async (there) => {
      for (const { engine, tensor } of there) {
        await expect(engine.sumTokens(tensor, [5, 0, 10, 3])).rejects.toMatchObject({ argument: 'lengths' });
        await expect(engine.sumTokens(tensor, [1])).rejects.toMatchObject({ argument: 'lengths' });
      }
    });
  });
});

describe.skipIf(!hasBackend)('from tokens to a step’s metrics', () => {
  const prompts = 4;
  const rows = 16;
  const tokens = 12;
  const lengths = Array.from({ length: rows }, (_, row) => 3 + (row % 10));
  const groups = Array.from({ length: rows }, (_, row) => 10 + Math.floor(row / 4));
  const own = groups.map((group) => group - 10);
  const logprobs = hostTensor('bfloat16', [prompts, rows, tokens], 8, 3);

  it('tokenRowStats is scoreStats of sumTokens', async () => {
    await onBoth(logprobs, async (there, cpu) => {
      const { sums } = await cpu.sumTokens(logprobs, lengths);
      const expected = await cpu.scoreStats(sums, { own, lengths, topK: 2 });
      for (const { engine, tensor } of [...there, { engine: cpu, tensor: logprobs }]) {
        const result = await engine.tokenRowStats(tensor, lengths, { own, topK: 2 });
        expectSame(result.stats, expected, 1e-11);
        expectClose(result.sums.data, sums.data, 1e-12, 'sums');
        expect([result.sums.shape, [...result.lengths].map(Number), result.firstInvalid]).toEqual([
          [rows, prompts],
          lengths,
          null,
        ]);
      }
    });
  });

  it.each(['strict', 'ragen'] as const)('crossScoreMetrics, %s', async (profile) => {
    await onBoth(logprobs, async (there, cpu) => {
      const expected = await crossScoreMetrics(cpu, { logprobs, lengths, groups }, { profile });
      for (const { engine, tensor } of there) {
        const step = await crossScoreMetrics(engine, { logprobs: tensor, lengths, groups }, { profile });
        expect(Object.keys(step.logged)).toEqual(Object.keys(expected.logged));
        const [actual, wanted] = [Object.values(step.logged), Object.values(expected.logged)];
        expectClose(actual, wanted, 1e-9, 'logged');
      }
    });
  });

  it('crossScoreMetrics of sums on the GPU', async () => {
    await onBoth(hostTensor('float64', [rows, prompts], 13, 30), async (there, cpu) => {
      const [sums, host] = there.map(({ tensor }) => tensor) as [Tensor, Tensor];
      const { values } = await crossScoreMetrics(cpu, { sums, lengths, groups });
      expect(values).toEqual((await crossScoreMetrics(cpu, { sums: host, lengths, groups })).values);
    });
  });

  it.skipIf(onGpu)('crossScoreMetrics makes one call of it, unless rows or columns are picked', async () => {
    using trace = new Trace();
    await using engine = await openOnDevice();
    await using tensor = await engine.upload(logprobs);
    setEmulation({ TRACE: trace.path });
    await crossScoreMetrics(engine, { logprobs: tensor, lengths, groups });
    expect(trace.calls).toEqual(['tokens_to_row_stats 0']);
    trace.clear();
    const columnGroups = [13, 12, 11, 10];
    const mirrored = await crossScoreMetrics(engine, { logprobs: tensor, lengths, groups, columnGroups });
    expect(trace.calls[0]).toBe('sum_tokens 0');
    await using cpu = await openEngine({ device: 'cpu', threads: 1 });
    const expected = await crossScoreMetrics(cpu, { logprobs, lengths, groups, columnGroups });
    expectClose(Object.values(mirrored.values), Object.values(expected.values), 1e-9, 'values');
  });

  it('a Monitor takes them prompt by prompt', async () => {
    await using engine = await openOnDevice({ device: 'auto' });
    const reports = [];
    for (const onDevice of [true, false]) {
      const monitor = new Monitor({ engine, profile: 'strict' });
      const step = monitor.step(1, { groups, lengths });
      for (let prompt = 0; prompt < prompts; prompt++) {
        const data = logprobs.data.subarray(prompt * rows * tokens, (prompt + 1) * rows * tokens);
        const host: HostTensor = { data, dtype: 'bfloat16', shape: [rows, tokens] };
        await using device = await engine.upload(host);
        await step.score(prompt, onDevice ? device : host);
      }
      reports.push(await step.finish());
    }
    const [there, here] = reports.map((report) => Object.values(report.metrics));
    expect(there?.length).toBeGreaterThan(10);
    expectClose(there ?? [], here ?? [], 1e-9, 'values');
  });
});

describe.skipIf(!hasBackend)('determinism', () => {
  it('gives the same bits again', async () => {
    await onBoth(hostTensor('bfloat16', [64, 5003], 9), async ([there]) => {
      const { engine, tensor } = there as { engine: Engine; tensor: Tensor };
      const first = await engine.logitStats(tensor);
      for (let run = 0; run < 3; run++) expect(await engine.logitStats(tensor)).toEqual(first);
    });
  });
});

emulatedOnly('host tensors larger than the GPU', () => {
  it('go through it in blocks of rows', async () => {
    const bytes = 384 * 1024;
    await using engine = await openOnDevice();
    await using cpu = await openEngine({ device: 'cpu', threads: 1 });
    setEmulation({ BYTES: bytes });
    const logits = hostTensor('float32', [100, 1000], 10);
    const seen: number[] = [];
    const actual = await engine.logitStats(logits, { onProgress: (fraction) => seen.push(fraction) });
    expectSame(actual, await cpu.logitStats(logits), 2e-6);
    expect(seen.at(-1)).toBe(1);
    await expect(engine.upload(logits)).rejects.toMatchObject({ reason: 'out_of_memory', askedBytes: 400_000 });
    const lengths = Array.from({ length: 100 }, (_, row) => Math.min(row % 11, 10));
    const tokens = { ...logits, shape: [100, 100, 10] };
    const sums = await engine.sumTokens(tokens, lengths);
    const expected = await cpu.sumTokens(tokens, lengths);
    expectClose(sums.sums.data as Float64Array, expected.sums.data, 1e-12, 'sums');
    expect(await freeBytesOf(engine)).toBe(bytes);
  });

  it('of which not even a row fits are refused, with what was asked and what is free', async () => {
    await using engine = await openOnDevice();
    setEmulation({ BYTES: 6 * 1024 });
    const error = await engine.logitStats(hostTensor('float32', [2, 1000], 11)).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(DeviceError);
    expect(error).toMatchObject({ reason: 'out_of_memory', askedBytes: 8192 });
    const { askedBytes, freeBytes } = error as DeviceError;
    expect(freeBytes).toBeLessThan(8192);
    expect((error as Error).message).toContain(`${askedBytes} bytes asked for, ${freeBytes} of 6144 free`);
    expect((await engine.logitStats(hostTensor('float32', [2, 50], 12))).rows).toBe(2);
  });
});
