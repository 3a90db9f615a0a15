// logitStats against plain float64, for any shape, dtype, strides, temperature and number of threads; and its
// arguments.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError } from '../../src/checks/errors.js';
import { loadAddon } from '../../src/engine/addon.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { LogitField } from '../../src/engine/operations/logit-fields.js';
import type { DType, Tensor, TensorData } from '../../src/engine/tensor/tensor.js';
import { uniformNumbers } from '../support/random-numbers.js';
import { fromBits } from './engine-reference.js';

const engines: Engine[] = [];
beforeAll(async () => {
  for (const threads of [1, 2, 3]) engines.push(await openEngine({ device: 'cpu', threads }));
});
afterAll(() => Promise.all(engines.map((engine) => engine.dispose())));
const engineOf = (threads: number): Engine => engines[threads - 1] as Engine;

/** Logits between -8 and 8, some of them -inf, and the numbers that their storage stands for. */
function logitsOf(dtype: DType, count: number, seed: number): { data: TensorData; values: number[] } {
  const next = uniformNumbers(seed);
  const logit = (): number => (next() < 0.05 ? -Infinity : 16 * next() - 8);
  if (dtype === 'float64' || dtype === 'float32') {
    const data = dtype === 'float64' ? new Float64Array(count) : new Float32Array(count);
    for (let i = 0; i < count; i++) data[i] = logit();
    return { data, values: [...data] };
  }
  const data = new Uint16Array(count);
  // Of magnitude 2^-3 to 2^3, or -inf.
  const [bias, shift, infinity] = dtype === 'float16' ? [12, 10, 0xfc00] : [124, 7, 0xff80];
  for (let i = 0; i < count; i++) {
    const sign = next() < 0.5 ? 0x8000 : 0;
    const exponent = Math.floor(bias + 6 * next()) << shift;
    data[i] = next() < 0.05 ? infinity : sign | exponent | Math.floor((1 << shift) * next());
  }
  return { data, values: [...data].map((bits) => fromBits(bits, dtype)) };
}

interface ReferenceLogits {
  logsumexp: number;
  entropy: number;
  targetLogprob: number;
  argmax: number;
  rankAbove: number;
  rankEqual: number;
}

function reference(row: readonly number[], target: number, temperature: number): ReferenceLogits {
  const largest = Math.max(...row);
  const chosen = row[target] as number;
  const differences = row.map((x) => (x - largest) / temperature);
  const s = differences.reduce((sum, d) => sum + Math.exp(d), 0);
  const t = differences.reduce((sum, d) => sum + (d === -Infinity ? 0 : Math.exp(d) * d), 0);
  const empty = largest === -Infinity;
  return {
    logsumexp: empty ? -Infinity : largest / temperature + Math.log(s),
    entropy: empty ? NaN : Math.log(s) - t / s,
    targetLogprob: empty ? NaN : (chosen - largest) / temperature - Math.log(s),
    argmax: row.indexOf(largest),
    rankAbove: row.filter((x) => x > chosen).length,
    rankEqual: row.filter((x) => x === chosen).length,
  };
}

function close(actual: number | undefined, expected: number, tolerance: number, what: string): void {
  if (!Number.isFinite(expected)) expect(actual, what).toBe(expected);
  else expect(Math.abs((actual as number) - expected), what).toBeLessThanOrEqual(tolerance);
}

const dtypeArbitrary = fc.constantFrom<DType>('float64', 'float32', 'float16', 'bfloat16');

describe('logitStats', () => {
  it('agrees with plain float64 for any shape, dtype, layout and temperature', async () => {
    await fc.assert(
      fc.asyncProperty(
        dtypeArbitrary,
        fc.integer({ min: 0, max: 20 }),
        fc.integer({ min: 1, max: 700 }),
        fc.boolean(),
        fc.nat(5),
        fc.constantFrom(1, 0.7, 2, 0.05),
        fc.integer(),
        fc.integer({ min: 1, max: 3 }),
        async (dtype, rows, columns, transposed, gap, temperature, seed, threads) => {
          const strides = transposed ? [1, rows + gap] : [columns + gap, 1];
          const size = 3 + (rows + gap + 1) * (columns + gap + 1);
          const { data, values } = logitsOf(dtype, size, seed);
          const logits: Tensor = { data: data.subarray(3), dtype, shape: [rows, columns], strides };
          const targets = Array.from({ length: rows }, (_, row) => (row * 7919 + (seed >>> 1)) % columns);
          const stats = await engineOf(threads).logitStats(logits, { targets, temperature });
          expect([stats.rows, stats.columns]).toEqual([rows, columns]);
          for (let row = 0; row < rows; row++) {
            const line = Array.from(
              { length: columns },
              (_, v) => values[3 + row * (strides[0] as number) + v * (strides[1] as number)] as number,
            );
            const expected = reference(line, targets[row] as number, temperature);
            const wide = dtype === 'float64';
            const gate = (value: number): number => (wide ? 1e-12 : 3e-7 + Math.abs(value) * 2 ** -24);
            close(stats.logsumexp?.[row], expected.logsumexp, gate(expected.logsumexp), 'logsumexp');
            close(stats.entropy?.[row], expected.entropy, wide ? 1e-12 : 1e-6, 'entropy');
            close(stats.targetLogprob?.[row], expected.targetLogprob, gate(expected.targetLogprob), 'targetLogprob');
            expect(stats.argmax?.[row]).toBe(Math.max(expected.argmax, 0));
            expect(stats.rankAbove?.[row]).toBe(expected.rankAbove);
            expect(stats.rankEqual?.[row]).toBe(expected.rankEqual);
          }
        },
      ),
      { numRuns: 120 },
    );
  });

  it('gives the fields asked for, with the same bits as all of them', async () => {
    const { data } = logitsOf('float32', 3 * 20000, 4);
    const logits: Tensor = { data, dtype: 'float32', shape: [3, 20000] };
    const targets = new Int32Array([5, 0, 19999]);
    const all = await engineOf(2).logitStats(logits, { targets });
    const fields: LogitField[] = ['logsumexp', 'entropy', 'targetLogprob', 'argmax', 'rankAbove', 'rankEqual'];
    expect(Object.keys(all)).toEqual(['rows', 'columns', ...fields]);
    for (const field of fields) {
      const one = await engineOf(1).logitStats(logits, { targets, out: [field] });
      expect(one).toEqual({ rows: 3, columns: 20000, [field]: all[field] });
    }
    const without = await engineOf(1).logitStats(logits);
    expect(Object.keys(without)).toEqual(['rows', 'columns', 'logsumexp', 'entropy', 'argmax']);
    expect(await engineOf(1).logitStats(logits, { out: [] })).toEqual({ rows: 3, columns: 20000 });
  });

  it('does not read masked rows, and takes means over the others of each sequence', async () => {
    const [rows, columns] = [6, 33];
    const { data } = logitsOf('float32', rows * columns, 8);
    (data as Float32Array).fill(NaN, columns, 2 * columns);
    const logits: Tensor = { data, dtype: 'float32', shape: [rows, columns] };
    const targets = [3, -100, 3, 3, 3, 2 ** 40]; // what stands in a row that is left out is nobody's business
    const mask = [true, false, true, true, true, false];
    const byLengths = await engineOf(2).logitStats(logits, { targets, mask, sequences: { lengths: [3, 2, 1, 0] } });
    const byOffsets = await engineOf(1).logitStats(logits, {
      targets,
      mask: Uint8Array.from(mask, Number),
      sequences: { offsets: [0, 3, 5, 6, 6] },
    });
    expect(byOffsets).toEqual(byLengths);
    const entropy = byLengths.entropy as Float64Array;
    const logprob = byLengths.targetLogprob as Float64Array;
    expect([entropy[1], byLengths.logsumexp?.[1], logprob[5]]).toEqual([NaN, NaN, NaN]);
    expect([byLengths.argmax?.[1], byLengths.rankAbove?.[5], byLengths.rankEqual?.[1]]).toEqual([-1, -1, -1]);
    const mean = (values: Float64Array, ...at: number[]): number =>
      at.reduce((sum, row) => sum + (values[row] as number), 0) / at.length;
    close(byLengths.meanEntropy?.[0], mean(entropy, 0, 2), 1e-15, 'entropy');
    close(byLengths.meanEntropy?.[1], mean(entropy, 3, 4), 1e-15, 'entropy');
    close(byLengths.meanTargetLogprob?.[0], mean(logprob, 0, 2), 1e-14, 'target log-prob');
    expect([...(byLengths.meanEntropy as Float64Array)].slice(2)).toEqual([NaN, NaN]);
    // Means alone: the rows' values are not given out.
    const only = await engineOf(1).logitStats(logits, { mask, out: [], sequences: { lengths: [3, 2, 1, 0] } });
    expect(only).toEqual({ rows, columns, meanEntropy: byLengths.meanEntropy });
    const both = await engineOf(1).logitStats(logits, { targets, mask, out: [], sequences: { lengths: [3, 2, 1, 0] } });
    const { meanEntropy, meanTargetLogprob } = byLengths;
    expect(both).toEqual({ rows, columns, meanEntropy, meanTargetLogprob });
  });

  it('treats special values as torch does', async () => {
    const data = new Float64Array([1, NaN, Infinity, 2, 1, Infinity, -Infinity, -Infinity, -Infinity, 3, -Infinity, 3]);
    const logits: Tensor = { data, dtype: 'float64', shape: [4, 3] };
    const stats = await engineOf(2).logitStats(logits, { targets: [2, 1, 0, 2] });
    expect([...(stats.logsumexp as Float64Array)]).toEqual([NaN, Infinity, -Infinity, 3 + Math.log(2)]);
    expect([...(stats.entropy as Float64Array)]).toEqual([NaN, NaN, NaN, Math.log(2)]);
    expect([...(stats.targetLogprob as Float64Array)]).toEqual([NaN, NaN, NaN, -Math.log(2)]);
    expect([...(stats.argmax as Int32Array)]).toEqual([1, 2, 0, 0]);
    expect([...(stats.rankAbove as Int32Array)]).toEqual([0, 2, 0, 0]);
    expect([...(stats.rankEqual as Int32Array)]).toEqual([1, 1, 3, 2]);
  });

  it('gives the same bits whatever the threads and the instruction set', async () => {
    const addon = loadAddon();
    const { data } = logitsOf('bfloat16', 2 * 70001, 9);
    const logits: Tensor = { data, dtype: 'bfloat16', shape: [2, 70001] };
    const best = addon.isa();
    const results: unknown[] = [];
    try {
      for (const isa of addon.isaAvailable()) {
        expect(addon.forceIsa(isa)).toBe(true);
        for (const engine of engines) results.push(await engine.logitStats(logits, { targets: [7, 70000] }));
      }
    } finally {
      addon.forceIsa(best);
    }
    expect(results.length).toBeGreaterThanOrEqual(3);
    for (const result of results) expect(result).toEqual(results[0]);
  });

  it('reports progress and stops when aborted', async () => {
    const logits: Tensor = { data: new Float32Array(64), dtype: 'float32', shape: [2000, 64], strides: [0, 1] };
    const seen: number[] = [];
    await engineOf(1).logitStats(logits, { onProgress: (fraction) => seen.push(fraction) });
    expect(seen.at(-1)).toBe(1);
    const reason = new Error('enough');
    const controller = new AbortController();
    const huge: Tensor = { ...logits, shape: [2 ** 22, 64] };
    const running = engineOf(1).logitStats(huge, { signal: controller.signal });
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
  });
});

describe('arguments of logitStats', () => {
  const logits: Tensor = { data: new Float32Array(12), dtype: 'float32', shape: [3, 4] };
  // biome-ignore lint/suspicious/noExplicitAny: these arguments are wrong on purpose
  const cases: [name: string, argument: string, message: RegExp, options: any, tensor?: any][] = [
    ['another number of axes', 'logits.shape', /expected logits \[N, V\]/, {}, { ...logits, shape: [12] }],
    ['rows without columns', 'logits', /has rows but no columns/, {}, { ...logits, shape: [3, 0] }],
    ['strides past the end', 'logits', /reach element 14, but data has 12/, {}, { ...logits, strides: [4, 2] }],
    ['too few targets', 'options.targets', /got 2 entries, expected 3/, { targets: [0, 1] }],
    ['a target past the end', 'options.targets', /entry 1 is 4, expected 0 to 3/, { targets: [0, 4, 0] }],
    ['a target below zero', 'options.targets', /entry 2 is -1, expected 0 to 3/, { targets: [0, 0, -1] }],
    ['targets that are missing', 'options.targets', /rankAbove needs them/, { out: ['argmax', 'rankAbove'] }],
    ['an unknown field', 'options.out', /got "perplexity", expected some of logsumexp/, { out: ['perplexity'] }],
    ['fields that are no array', 'options.out', /got "entropy"/, { out: 'entropy' }],
    [
      'temperature 0',
      'options.temperature',
      /got 0, expected a number from 1e-18 to 1000000000000000000/,
      { temperature: 0 },
    ],
    ['a NaN temperature', 'options.temperature', /got NaN/, { temperature: NaN }],
    ['a temperature that is text', 'options.temperature', /got "1"/, { temperature: '1' }],
    ['too short a mask', 'options.mask', /got 1 entry, expected 3/, { mask: [true] }],
    ['a mask of numbers', 'options.mask', /entry 0 is 1, expected a boolean/, { mask: [1, 0, 1] }],
    ['a mask with a 2', 'options.mask', /entry 1 is 2, expected 0 to 1/, { mask: new Uint8Array([0, 2, 1]) }],
    ['a mask that is none', 'options.mask', /expected an array of booleans/, { mask: 'all' }],
    ['sequences that are none', 'options.sequences', /got 3, expected/, { sequences: 3 }],
    ['empty sequences', 'options.sequences', /got neither/, { sequences: {} }],
    ['both kinds', 'options.sequences', /got both/, { sequences: { lengths: [3], offsets: [0, 3] } }],
    ['too short lengths', 'options.sequences.lengths', /their sum is 2, expected 3/, { sequences: { lengths: [2] } }],
    ['too long lengths', 'options.sequences.lengths', /their sum is more than 3/, { sequences: { lengths: [2, 2] } }],
    ['no offsets', 'options.sequences.offsets', /got no entry/, { sequences: { offsets: [] } }],
    ['falling offsets', 'options.sequences.offsets', /entry 2 is 1, below/, { sequences: { offsets: [0, 2, 1] } }],
    ['an offset past the end', 'options.sequences.offsets', /entry 1 is 4/, { sequences: { offsets: [0, 4] } }],
  ];
  it.each(cases)('are refused by name: %s', async (_, argument, message, options, tensor = logits) => {
    const error = await engineOf(1)
      .logitStats(tensor, options)
      .then(
        () => undefined,
        (reason: unknown) => reason,
      );
    expect(error).toBeInstanceOf(ArgumentError);
    expect((error as ArgumentError).argument).toBe(argument);
    expect((error as ArgumentError).message).toMatch(message);
  });

  it('takes no rows', async () => {
    const none = await engineOf(2).logitStats(
      { ...logits, shape: [0, 4] },
      { targets: [], mask: [], sequences: { lengths: [] } },
    );
    expect([none.rows, none.logsumexp?.length, none.meanEntropy?.length]).toEqual([0, 0, 0]);
  });
});
