// The benchmarks' roofline, through the addon: it reads what it is told to, and times it.
import { expect, test } from 'vitest';
import { loadAddon } from '../src/engine/addon.js';
import { maxBufferBytes } from '../src/engine/memory.js';

test.each([1, 3])('a pure read sums all words of the first elements, with %i threads', async (threads) => {
  const addon = loadAddon();
  const native = new addon.NativeEngine(threads, maxBufferBytes);
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
    const { seconds, sum } = await new Promise<{ seconds: number; sum: bigint }>((resolve, reject) => {
      native.readBytes(
        (outcome, value, argument) =>
          outcome === 0
            ? resolve(value as { seconds: number; sum: bigint })
            : reject(new Error(`${value} ${argument}`)),
        data,
        1,
        true,
        elements,
        prefetchBytes,
      );
    });
    expect(sum).toBe(expected);
    expect(seconds).toBeGreaterThan(0);
  }
  await new Promise((resolve) => native.close(resolve));
});
