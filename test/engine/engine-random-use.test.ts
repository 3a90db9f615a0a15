// Calls in any order and at once, on several engines, over memory of every kind that is overwritten, transferred,
// shrunk or grown right after the call: each gives the bits that it gives alone on a plain copy, or the reason of its
// abort.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DType, Engine, HostTensor, TensorData } from '../../src/index.js';
import { openEngine } from '../../src/index.js';

const engines: Engine[] = [];
beforeAll(async () => {
  for (const threads of [1, 2, 3, 8]) engines.push(await openEngine({ device: 'cpu', threads }));
});
afterAll(() => Promise.all(engines.map((engine) => engine.dispose())));

const memories = ['engine', 'plain', 'shared', 'resizable', 'growing'] as const;
const arrays = { float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array };
const resizable = (bytes: number, kind: 'ArrayBuffer' | 'SharedArrayBuffer'): ArrayBuffer =>
  new (globalThis[kind] as unknown as new (bytes: number, options: object) => ArrayBuffer)(bytes, {
    maxByteLength: bytes + 64,
  });

/** An array of so many elements over memory of that kind, at some start of its buffer. */
function placed(engine: Engine, memory: (typeof memories)[number], dtype: DType, elements: number): TensorData {
  const skip = 3;
  const all = arrays[dtype];
  const bytes = (elements + skip) * all.BYTES_PER_ELEMENT;
  const buffers = {
    engine: () => engine.alloc(dtype, [elements + skip]).data.buffer as ArrayBuffer,
    plain: () => new ArrayBuffer(bytes),
    shared: () => new SharedArrayBuffer(bytes) as unknown as ArrayBuffer,
    resizable: () => resizable(bytes, 'ArrayBuffer'),
    growing: () => resizable(bytes, 'SharedArrayBuffer'),
  };
  return new all(buffers[memory](), skip * all.BYTES_PER_ELEMENT, elements);
}

/** What a caller may do to memory of that kind as soon as the call has returned. */
function takeAway(data: TensorData, memory: (typeof memories)[number], how: number): void {
  const buffer = data.buffer as ArrayBuffer & { resize(bytes: number): void; grow(bytes: number): void };
  if (memory === 'growing') buffer.grow(buffer.byteLength + 64);
  else if (memory === 'resizable' && how > 0) buffer.resize(how === 1 ? 0 : buffer.byteLength + 64);
  else if (memory === 'engine' || (memory === 'plain' && how > 0)) transferred(buffer);
  else if (memory !== 'shared') data.fill(0);
}

/** Where it may not be transferred, Node 20 copies it instead and later ones refuse. */
function transferred(buffer: ArrayBuffer): void {
  try {
    structuredClone(buffer, { transfer: [buffer] });
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'DataCloneError')) throw error;
  }
}

const operations = {
  sumTokens: (engine: Engine, scores: HostTensor, [a, b]: number[][], signal?: AbortSignal) =>
    engine.sumTokens(scores, b as number[], { columns: a, signal }),
  tokenRowStats: (engine: Engine, scores: HostTensor, [a, b, c]: number[][], signal?: AbortSignal) =>
    engine.tokenRowStats(scores, b as number[], { own: c as number[], signatures: a, signal }),
  scoreStats: (engine: Engine, { shape, strides, ...rest }: HostTensor, [, b, c]: number[][], signal?: AbortSignal) =>
    // Of the first prompt: its tokens are columns.
    engine.scoreStats(
      { ...rest, shape: shape.slice(1), ...(strides && { strides: strides.slice(1) }) },
      { own: c?.map(() => 0) as number[], lengths: b as number[], signal },
    ),
  logitStats: (engine: Engine, { shape, strides, ...rest }: HostTensor, [, , c]: number[][], signal?: AbortSignal) =>
    engine.logitStats(
      { ...rest, shape: shape.slice(1), ...(strides && { strides: strides.slice(1) }) },
      { targets: c?.map(() => 0) as number[], temperature: 0.7, signal },
    ),
};

const calls = fc.record({
  operation: fc.constantFrom(...(Object.keys(operations) as (keyof typeof operations)[])),
  at: fc.nat(3),
  dtype: fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16'),
  shape: fc.tuple(fc.integer({ min: 1, max: 5 }), fc.nat(6), fc.integer({ min: 1, max: 90 })),
  order: fc.shuffledSubarray([0, 1, 2], { minLength: 3, maxLength: 3 }),
  gap: fc.nat(2),
  memory: fc.constantFrom(...memories),
  how: fc.nat(2),
  seed: fc.nat(),
  abort: fc.constantFrom('no', 'no', 'no', 'now', 'soon', 'later'),
});

it('gives each call the bits that it gives alone', async () => {
  const one = async (call: typeof calls extends fc.Arbitrary<infer Call> ? Call : never): Promise<void> => {
    const { operation, dtype, shape, order, gap, memory, how, seed, abort } = call;
    const engine = engines[call.at] as Engine;
    const [prompts, rows, tokens] = shape;
    const strides = [0, 0, 0];
    let stride = 1;
    for (const axis of order) {
      strides[axis] = stride;
      stride *= (shape[axis] as number) + gap;
    }
    const data = placed(engine, memory, dtype, stride);
    // Finite, negative and not all the same, whatever the dtype: patterns of 16 bits from −2 to −4.
    const value = (i: number) => (Math.imul(i + seed, 2654435761) >>> 16) & 127;
    for (let i = 0; i < stride; i++) data[i] = data instanceof Uint16Array ? 0xc000 + value(i) : -2 - value(i) / 64;
    const plain = { data: new arrays[dtype](data), dtype, shape, strides };
    const labels = () => [
      Array.from({ length: prompts }, (_, prompt) => prompts - 1 - prompt),
      Array.from({ length: rows }, (_, row) => (row * 31 + seed) % (tokens + 1)),
      Array.from({ length: rows }, (_, row) => row % prompts),
    ];
    const given = labels();
    const controller = new AbortController();
    const running = operations[operation](engine, { data, dtype, shape, strides }, given, controller.signal);
    takeAway(data, memory, how);
    for (const list of given) list.fill(-1);
    const reason = new Error('enough');
    if (abort === 'now') controller.abort(reason);
    if (abort === 'soon') queueMicrotask(() => controller.abort(reason));
    if (abort === 'later') setImmediate(() => controller.abort(reason));
    try {
      const found: unknown = await running;
      expect(abort).not.toBe('now');
      expect(found).toEqual(await operations[operation](engines[0] as Engine, plain, labels()));
    } catch (error) {
      if (error !== reason) throw error;
      expect(abort).not.toBe('no');
    }
  };
  await fc.assert(
    fc.asyncProperty(fc.array(calls, { minLength: 1, maxLength: 12 }), async (list) => {
      await Promise.all(list.map(one));
    }),
    { numRuns: 150 },
  );
});
