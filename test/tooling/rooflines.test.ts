// The benchmarks' rooflines, through the addon: they do what they say, and time it.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadAddon } from '../../src/engine/addon.js';
import { HeldBuffers, maxBufferBytes } from '../../src/engine/memory.js';
import type { NativeEngine, NativeResults, Settle } from '../../src/engine/native.js';
import { tokenArguments, viewHostTensor } from '../../src/engine/tensor/tensor-view.js';

const addon = loadAddon();
const LINE = 64;

describe.each([1, 3])('with %i threads', (threads) => {
  let native: NativeEngine;
  beforeAll(() => {
    native = new addon.NativeEngine(threads, maxBufferBytes);
  });
  afterAll(() => new Promise((resolve) => native.close(resolve)));

  function run<K extends 'readBytes' | 'touchLines' | 'multiplyAdds'>(
    start: (settle: Settle) => void,
  ): Promise<NativeResults[K]> {
    return new Promise((resolve, reject) => {
      start((outcome, value, argument) =>
        outcome === 0 ? resolve(value as NativeResults[K]) : reject(new Error(`${value} ${argument}`)),
      );
    });
  }

  test('a pure read sums all words of the first elements', async () => {
    const data = new Float32Array(addon.alloc(4 * 300_001));
    const words = new Uint32Array(data.buffer).map((_, at) => Math.imul(at, 2654435761));
    new Uint32Array(data.buffer).set(words);
    const elements = 290_000;
    const wide = new BigUint64Array(words.buffer.slice(0, elements * 4));
    const expected = BigInt.asUintN(
      64,
      wide.reduce((sum, word) => sum + word, 0n),
    );
    for (const prefetchBytes of [0, 4096]) {
      const { seconds, sum } = await run<'readBytes'>((settle) =>
        native.readBytes(settle, data, 1, true, elements, prefetchBytes),
      );
      expect(sum).toBe(expected);
      expect(seconds).toBeGreaterThan(0);
    }
  });

  test.each([0, 7])('the lines of valid tokens are touched once each, %i elements behind a line', async (shift) => {
    const [prompts, rows, tokens] = [3, 2500, 37]; // more rows than a tile has; over 1 MiB: read where it lies
    const memory = new Uint8Array(addon.alloc(4 * (shift + prompts * rows * tokens)));
    memory.forEach((_, at) => {
      memory[at] = at % 251;
    });
    const lengths = Array.from({ length: rows }, (_, row) => (row * 7) % (tokens + 1));
    let expected = 0n;
    for (let segment = 0; segment < prompts * rows; segment++) {
      const begin = 4 * (shift + segment * tokens);
      const end = begin + 4 * (lengths[segment % rows] as number);
      for (let at = begin; at < end; at = LINE * (Math.floor(at / LINE) + 1)) expected += BigInt(memory[at] as number);
    }
    const data = new Float32Array(memory.buffer, 4 * shift, prompts * rows * tokens);
    const view = viewHostTensor({ data, dtype: 'float32', shape: [prompts, rows, tokens] }, 'logprobs', '[P, R, T]');
    const { seconds, sum } = await run<'touchLines'>((settle) =>
      native.touchLines(settle, ...tokenArguments(view, lengths, undefined)(new HeldBuffers())),
    );
    expect(sum).toBe(expected);
    expect(seconds).toBeGreaterThan(0);
  });

  test('multiply-adds: x <- .999 x + .001 from 0 in the mean on every thread, and every lane counted', async () => {
    const lanesDone = async (steps: number) => {
      const { seconds, count, sum } = await run<'multiplyAdds'>((settle) => native.multiplyAdds(settle, steps));
      expect(seconds).toBeGreaterThan(0);
      expect(Number.isInteger(count / (steps * threads))).toBe(true);
      const each = 1 - 0.999 ** steps;
      expect(sum / ((count / steps) * each)).toBeCloseTo(1, 3);
      return count / steps;
    };
    const lanes = await lanesDone(100);
    expect(lanes).toBeGreaterThanOrEqual(4 * threads);
    expect(await lanesDone(1000)).toBe(lanes);
  });
});
