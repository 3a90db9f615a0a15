// Every bad argument rejects with an ArgumentError that names it, and the engine works on afterwards.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError, CollapsarError, DeviceError } from '../../src/checks/errors.js';
import { addonPath } from '../../src/engine/addon.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { RowStats } from '../../src/engine/operations/row-stats.js';
import type { HostTensor, Tensor } from '../../src/engine/tensor/tensor.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

async function rejection(call: () => Promise<unknown>): Promise<unknown> {
  // Not a synchronous throw: the call itself must return a promise.
  const promise = call();
  expect(promise).toBeInstanceOf(Promise);
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('expected a rejection');
}

const float64 = (shape: number[], strides?: number[], elements = 64): Tensor => ({
  data: new Float64Array(elements),
  dtype: 'float64',
  shape,
  ...(strides && { strides }),
});
// biome-ignore lint/suspicious/noExplicitAny: these arguments are wrong on purpose
type Wrong = any;

describe('tensors', () => {
  const cases: [name: string, argument: string, message: RegExp, tensor: Wrong][] = [
    ['no tensor', 'sums', /got null, expected a tensor/, null],
    ['a plain array', 'sums', /got an array of 2, expected a tensor \{ data, dtype/, [1, 2]],
    ['a bare typed array', 'sums', /got a Float64Array, expected a tensor/, new Float64Array(2)],
    ['a promise', 'sums', /got a Promise: await it first/, Promise.resolve(1)],
    ['an unknown dtype', 'sums.dtype', /got "int8"/, { ...float64([2, 2]), dtype: 'int8' }],
    ['an inherited name as dtype', 'sums.dtype', /got "toString"/, { ...float64([2, 2]), dtype: 'toString' }],
    [
      'an array of another type',
      'sums.data',
      /got a Float64Array, expected a Float32Array/,
      { ...float64([2, 2]), dtype: 'float32' },
    ],
    ['a typed array by name only', 'sums.data', /expected a Float64Array/, { ...float64([2, 2]), data: { length: 4 } }],
    ['an extent below zero', 'sums.shape', /axis 1 is -1/, float64([2, -1])],
    ['an extent that is no integer', 'sums.shape', /axis 0 is 1\.5/, float64([1.5, 2])],
    ['an extent that is a bigint', 'sums.shape', /axis 0 is 2n/, { ...float64([2, 2]), shape: [2n, 2] }],
    ['an unsafe extent', 'sums.shape', /axis 0 is 9007199254740992/, float64([2 ** 53, 1])],
    ['too many elements to count', 'sums.shape', /more elements than can be counted/, float64([2 ** 40, 2 ** 40])],
    ['a shape that is no array', 'sums.shape', /got "22", expected an array/, { ...float64([2, 2]), shape: '22' }],
    ['another number of axes', 'sums.shape', /got \[2, 2, 2\], expected scores \[R, P\]/, float64([2, 2, 2])],
    ['data too short', 'sums.shape', /\[9, 8\] has 72 elements, but data has 64/, float64([9, 8])],
    ['too few strides', 'sums.strides', /expected an array of 2 integers/, float64([2, 2], [2])],
    ['a fractional stride', 'sums.strides', /axis 1 is 0\.5/, float64([2, 2], [2, 0.5])],
    ['strides past the end', 'sums', /reach element 64, but data has 64/, float64([2, 2], [63, 1])],
    ['a negative stride', 'sums', /negative stride reaches before/, float64([2, 2], [2, -1])],
    ['strides whose reach overflows 64 bits', 'sums', /reach element \d/, float64([2 ** 53 - 1, 1], [2 ** 53 - 1, 1])],
    ['rows without columns', 'sums', /has rows but no columns/, float64([3, 0])],
    ['columns past 32 bits', 'sums', /at most 2147483647 are possible/, float64([0, 2 ** 31])],
  ];
  it.each(cases)('refuses %s', async (_, argument, message, tensor) => {
    const error = await rejection(() => engine.gatherScores(tensor));
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toMatch(message);
  });

  it('takes zero strides, and any stride along an axis of one', async () => {
    const tensor: Tensor = { data: new Float64Array([5, 6]), dtype: 'float64', shape: [3, 2], strides: [0, 1] };
    expect([...(await engine.gatherScores(tensor)).data]).toEqual([5, 6, 5, 6, 5, 6]);
    const one: Tensor = { data: new Float64Array([5, 6]), dtype: 'float64', shape: [1, 2], strides: [-900, 1] };
    expect([...(await engine.gatherScores(one)).data]).toEqual([5, 6]);
  });

  it('looks at the true length of an array, and reads properties once', async () => {
    const data = new Float64Array(4);
    Object.defineProperty(data, 'length', { value: 1e9 });
    const error = await rejection(() => engine.gatherScores({ data, dtype: 'float64', shape: [10, 10] }));
    expect((error as Error).message).toMatch(/but data has 4/);
    let reads = 0;
    const shifty = {
      get data() {
        reads++;
        return reads === 1 ? new Float64Array(4).fill(1) : new Float64Array(0);
      },
      dtype: 'float64' as const,
      shape: [2, 2],
    };
    expect([...(await engine.gatherScores(shifty)).data]).toEqual([1, 1, 1, 1]);
  });

  it('never reads outside the data, whatever shape and strides', async () => {
    const int = fc.integer({ min: -5, max: 70 });
    await fc.assert(
      fc.asyncProperty(fc.tuple(fc.nat(6), fc.nat(6)), fc.tuple(int, int), async (shape, strides) => {
        const [rows, columns] = shape;
        const reach = (rows - 1) * strides[0] + (columns - 1) * strides[1];
        const inside =
          rows * columns === 0 ||
          (reach < 64 &&
            (rows === 1 || strides[0] >= 0) &&
            (columns === 1 || strides[1] >= 0) &&
            (rows - 1) * strides[0] < 64 &&
            (columns - 1) * strides[1] < 64);
        const fine = inside && !(rows > 0 && columns === 0);
        const tensor: Tensor = {
          data: Float64Array.from({ length: 64 }, (_, i) => i),
          dtype: 'float64',
          shape,
          strides,
        };
        const result = await engine.gatherScores(tensor).catch((error: unknown) => error);
        if (!fine) {
          expect(result).toBeInstanceOf(ArgumentError);
          return;
        }
        const expected = Array.from(
          { length: rows * columns },
          (_, i) => Math.floor(i / columns) * strides[0] + (i % columns) * strides[1],
        );
        expect([...(result as HostTensor).data].map((value) => value + 0)).toEqual(expected.map((value) => value + 0));
      }),
      { numRuns: 300 },
    );
  });
});

describe('sumTokens', () => {
  const padded = float64([2, 3, 4]);
  const packed = float64([2, 10]);
  const cases: [name: string, argument: string, message: RegExp, call: () => Promise<unknown>][] = [
    ['a length below zero', 'lengths', /entry 1 is -1, expected 0 to 4/, () => engine.sumTokens(padded, [1, -1, 2])],
    ['a length past T', 'lengths', /entry 2 is 5, expected 0 to 4/, () => engine.sumTokens(padded, [1, 1, 5])],
    ['a fractional length', 'lengths', /entry 0 is 0\.5/, () => engine.sumTokens(padded, [0.5, 1, 1])],
    // Its conversion to an integer is anyone's guess.
    [
      'a length of 1e300',
      'lengths',
      /entry 0 is 1.*e\+300, expected a whole number/,
      () => engine.sumTokens(padded, [1e300, 1, 1]),
    ],
    ['NaN as length', 'lengths', /entry 0 is nan/i, () => engine.sumTokens(padded, [NaN, 1, 1])],
    ['null as length', 'lengths', /entry 0 is null/, () => engine.sumTokens(padded, [null, 1, 1] as Wrong)],
    ['a hole as length', 'lengths', /entry 0 is undefined/, () => engine.sumTokens(padded, new Array(3))],
    ['too few lengths', 'lengths', /got 2 entries, expected 3 \(one a row\)/, () => engine.sumTokens(padded, [1, 1])],
    [
      'no lengths',
      'lengths',
      /got undefined, expected an Int32Array/,
      () => engine.sumTokens(padded, undefined as Wrong),
    ],
    [
      'lengths of another type',
      'lengths',
      /got a Uint8Array/,
      () => engine.sumTokens(padded, new Uint8Array(3) as Wrong),
    ],
    [
      'a bigint length past T',
      'lengths',
      /entry 0 is 9223372036854775807/,
      () => engine.sumTokens(padded, new BigInt64Array([2n ** 63n - 1n, 0n, 0n])),
    ],
    [
      'packed rows past the end',
      'lengths',
      /row 1 ends at token 11, but the packed logprobs have 10/,
      () => engine.sumTokens(packed, [5, 6]),
    ],
    ['a packed length past N', 'lengths', /entry 0 is 11, expected 0 to 10/, () => engine.sumTokens(packed, [11])],
    [
      'an offset past the end',
      'options.offsets',
      /row 1 ends at token 11/,
      () => engine.sumTokens(packed, [5, 6], { offsets: [0, 5] }),
    ],
    [
      'an offset below zero',
      'options.offsets',
      /entry 0 is -1/,
      () => engine.sumTokens(packed, [5], { offsets: [-1] }),
    ],
    [
      'too many offsets',
      'options.offsets',
      /got 2 entries, expected 1/,
      () => engine.sumTokens(packed, [5], { offsets: [0, 1] }),
    ],
    [
      'offsets of padded scores',
      'options.offsets',
      /only packed/,
      () => engine.sumTokens(padded, [1, 1, 1], { offsets: [0, 0, 0] }),
    ],
    ['rows without prompts', 'logprobs', /rows but no prompts/, () => engine.sumTokens(float64([0, 4]), [1])],
    [
      'a column out of range',
      'options.columns',
      /entry 1 is 2, expected 0 to 1/,
      () => engine.sumTokens(padded, [1, 1, 1], { columns: [0, 2] }),
    ],
    [
      'a column twice',
      'options.columns',
      /entry 1 is 0, which an earlier prompt has/,
      () => engine.sumTokens(padded, [1, 1, 1], { columns: [0, 0] }),
    ],
    [
      'out of plain memory',
      'options.out',
      /engine\.alloc\(\) or a SharedArrayBuffer/,
      () => engine.sumTokens(padded, [1, 1, 1], { out: float64([3, 2]) }),
    ],
    [
      'out of another dtype',
      'options.out.dtype',
      /got float32/,
      () => engine.sumTokens(padded, [1, 1, 1], { out: engine.alloc('float32', [3, 2]) }),
    ],
    [
      'out of other rows',
      'options.out',
      /has 2 rows, expected 3/,
      () => engine.sumTokens(padded, [1, 1, 1], { out: engine.alloc('float64', [2, 2]) }),
    ],
    [
      'columns of fewer prompts',
      'options.columns',
      /got 1 entry, expected 2 \(one a prompt\)/,
      () => engine.sumTokens(padded, [1, 1, 1], { columns: [0], out: engine.alloc('float64', [3, 2]) }),
    ],
    [
      'out of more rows',
      'options.out',
      /has 4 rows, expected 3/,
      () => engine.sumTokens(padded, [1, 1, 1], { out: engine.alloc('float64', [4, 2]) }),
    ],
    [
      'out of too few columns',
      'options.out',
      /has 1 columns for 2 prompts/,
      () => engine.sumTokens(padded, [1, 1, 1], { out: engine.alloc('float64', [3, 1]) }),
    ],
    [
      'out with gaps',
      'options.out.strides',
      /dense/,
      () =>
        engine.sumTokens(padded, [1, 1, 1], {
          out: { ...engine.alloc('float64', [6, 2]), shape: [3, 2], strides: [4, 1] },
        }),
    ],
    [
      'out over the input',
      'options.out',
      /overlaps/,
      () => {
        const { data } = engine.alloc('float64', [30]);
        const out: Tensor = { data: data.subarray(20, 26), dtype: 'float64', shape: [3, 2] };
        return engine.sumTokens({ data, dtype: 'float64', shape: [2, 3, 4] }, [1, 1, 1], { out });
      },
    ],
    ['options that are none', 'options', /got null/, () => engine.sumTokens(padded, [1, 1, 1], null as Wrong)],
    ['no signal', 'options.signal', /AbortSignal/, () => engine.sumTokens(padded, [1, 1, 1], { signal: {} as Wrong })],
    [
      'no callback',
      'options.onProgress',
      /expected a function/,
      () => engine.sumTokens(padded, [1, 1, 1], { onProgress: 1 as Wrong }),
    ],
  ];
  it.each(cases)('refuses %s', async (_, argument, message, call) => {
    const error = await rejection(call);
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toMatch(message);
  });
});

describe('scoreStats, stepMoments and inferStep', () => {
  const sums = float64([3, 4]);
  const labels = { own: [0, 1, 2], lengths: [1, 1, 1] };
  const withStats = async (change: Wrong, call: (stats: RowStats) => Promise<unknown>) =>
    call({ ...(await engine.scoreStats(sums, labels)), ...change });
  const infer = (stats: RowStats, change: Wrong = {}, scores = sums) =>
    engine.inferStep(scores, stats, { ...labels, permutations: 9, seed: 0, ...change });
  const cases: [name: string, argument: string, message: RegExp, call: () => Promise<unknown>][] = [
    ['no options', 'options', /got undefined/, () => engine.scoreStats(sums, undefined as Wrong)],
    [
      'own past P',
      'options.own',
      /entry 1 is 4, expected 0 to 3/,
      () => engine.scoreStats(sums, { ...labels, own: [0, 4, 0] }),
    ],
    ['own below zero', 'options.own', /entry 0 is -1/, () => engine.scoreStats(sums, { ...labels, own: [-1, 0, 0] })],
    ['too few own', 'options.own', /got 1 entry, expected 3/, () => engine.scoreStats(sums, { ...labels, own: [0] })],
    [
      'a length below zero',
      'options.lengths',
      /entry 0 is -2/,
      () => engine.scoreStats(sums, { ...labels, lengths: [-2, 0, 0] }),
    ],
    [
      'too few lengths',
      'options.lengths',
      /got 2 entries, expected 3 \(one a row\)/,
      () => engine.scoreStats(sums, { ...labels, lengths: [1, 1] }),
    ],
    [
      'a signature past P',
      'options.signatures',
      /entry 3 is 4/,
      () => engine.scoreStats(sums, { ...labels, signatures: [0, 0, 0, 4] }),
    ],
    [
      'too few signatures',
      'options.signatures',
      /got 3 entries, expected 4 \(one a column\)/,
      () => engine.scoreStats(sums, { ...labels, signatures: [0, 0, 0] }),
    ],
    [
      'topK past 8',
      'options.topK',
      /got 9, expected an integer from 0 to 8/,
      () => engine.scoreStats(sums, { ...labels, topK: 9 }),
    ],
    ['topK below zero', 'options.topK', /got -1/, () => engine.scoreStats(sums, { ...labels, topK: -1 })],
    [
      'gathered row out of range',
      'options.rows',
      /entry 0 is 3, expected 0 to 2/,
      () => engine.gatherScores(sums, { rows: [3] }),
    ],
    [
      'gathered column out of range',
      'options.columns',
      /entry 0 is 4/,
      () => engine.gatherScores(sums, { columns: [4] }),
    ],
    ['no columns gathered', 'options.columns', /picks no column/, () => engine.gatherScores(sums, { columns: [] })],
    ['no stats', 'stats', /got undefined/, () => engine.stepMoments(undefined as Wrong, labels)],
    [
      'stats of too few rows',
      'stats.matchedSeq',
      /reach element 2, but data has 1/,
      () => withStats({ matchedSeq: new Float64Array(1) }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'stats with a field missing',
      'stats.argmax',
      /got undefined/,
      () => withStats({ argmax: undefined }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'stats with fields swapped',
      'stats.argmax',
      /expected an Int32Array/,
      () => withStats({ argmax: new Float64Array(3) }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'a rank out of range',
      'stats.hitRank',
      /entry 0 is 99, expected 0 to 3/,
      () => withStats({ hitRank: new Int32Array(3).fill(99) }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'a rank below zero',
      'stats.hitRank',
      /entry 2 is -1, expected 0 to 3/,
      () => withStats({ hitRank: Int32Array.of(0, 3, -1) }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'a best column out of range',
      'stats.argmax',
      /entry 2 is 4, expected 0 to 3/,
      () => withStats({ argmax: Int32Array.of(0, 3, 4) }, (stats) => engine.stepMoments(stats, labels)),
    ],
    [
      'labels of other rows',
      'labels.own',
      /got 2 entries, expected 3/,
      () => withStats({}, (stats) => engine.stepMoments(stats, { ...labels, own: [0, 1] })),
    ],
    [
      'scores of another shape',
      'sums.shape',
      /got \[2, 4\], but stats are of \[3, 4\]/,
      () => withStats({}, (stats) => infer(stats, {}, float64([2, 4]))),
    ],
    [
      'permutations below zero',
      'options.permutations',
      /got -1/,
      () => withStats({}, (stats) => infer(stats, { permutations: -1 })),
    ],
    ['a fractional seed', 'options.seed', /got 0\.5/, () => withStats({}, (stats) => infer(stats, { seed: 0.5 }))],
    [
      'rows that cannot be of their own prompt',
      'stats.matchedSeq',
      /row 2 is -inf.*leave such rows out/,
      () => withStats({ matchedSeq: new Float64Array([0, 0, Number.NEGATIVE_INFINITY]) }, (stats) => infer(stats)),
    ],
    [
      'rows that are not finite',
      'stats.marginalSeq',
      /row 1 is nan/i,
      () => withStats({ marginalSeq: new Float64Array([0, NaN, 0]) }, (stats) => infer(stats)),
    ],
  ];
  it.each(cases)('refuses %s', async (_, argument, message, call) => {
    const error = await rejection(call);
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toMatch(message);
  });
});

describe('openEngine and alloc', () => {
  it('opens on a GPU by default, or on the CPU, and says why', async () => {
    await using auto = await openEngine();
    const built = existsSync(join(dirname(addonPath()), 'collapsar_cuda.so'));
    if (auto.info.device === 'cpu') expect(auto.info.fallback).toMatch(built ? /no NVIDIA driver/ : /no CUDA backend/);
    else expect(auto.info).toMatchObject({ device: 'cuda:0', fallback: null });
    expect(auto.info.threads).toBeGreaterThanOrEqual(1);
    expect(auto.info.isaAvailable).toContain(auto.info.isa);
    expect(engine.info).toMatchObject({ device: 'cpu', threads: 2, fallback: null });
  });

  it('throws for a device that was asked for and cannot be had', async () => {
    for (const device of ['cuda', 'cuda:1'] as const) {
      expect(await rejection(() => openEngine({ device }))).toBeInstanceOf(DeviceError);
    }
  });

  it('names bad options', async () => {
    for (const options of [
      { device: 'tpu' },
      { device: 'cuda:x' },
      { device: 3 },
      { threads: 0 },
      { threads: 1.5 },
      { threads: 1e9 },
      { signal: 1 },
      null,
    ]) {
      expect(await rejection(() => openEngine(options as Wrong))).toBeInstanceOf(ArgumentError);
    }
  });

  it('rejects with the reason of an aborted signal', async () => {
    const reason = new Error('not now');
    expect(await rejection(() => openEngine({ signal: AbortSignal.abort(reason) }))).toBe(reason);
  });

  it('allocates zeros, empty tensors too, and refuses what cannot be', () => {
    expect(engine.alloc('bfloat16', [2, 3])).toEqual({ data: new Uint16Array(6), dtype: 'bfloat16', shape: [2, 3] });
    expect(engine.alloc('float64', [0, 3]).data).toHaveLength(0);
    for (const [dtype, shape] of [
      ['int8', [1]],
      ['float32', [-1]],
      ['float32', 5],
      ['float64', [2 ** 50]],
    ]) {
      expect(() => engine.alloc(dtype as Wrong, shape as Wrong)).toThrow(CollapsarError);
    }
  });
});
