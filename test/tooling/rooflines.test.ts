// The benchmarks' rooflines (bench/native): they do what they say, and time it.
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nativeTarget } from '../../scripts/native-target.mjs';
import { loadAddon } from '../../src/engine/addon.js';

interface Rooflines {
  readBytes(data: Uint8Array, bytes: number, prefetchBytes: number): { seconds: number; sum: bigint };
  readFile(
    fd: number,
    offset: number,
    bytes: number,
    pieceBytes: number,
  ): { seconds: number; failure: { error: number; offset: number } | null };
  touchLines(
    data: Uint8Array,
    elementBytes: number,
    prompts: number,
    promptStride: number,
    offsets: Float64Array,
    lengths: Float64Array,
  ): { seconds: number; sum: bigint };
  multiplyAdds(steps: number): { seconds: number; count: number; sum: number };
}

const LINE = 64;
/** Pieces of a file as the engine reads them (native/engine/file_reader.h). */
const PIECE = 256 * 1024;
const path = nativeTarget('rooflines');
/** Begins with a cache line. */
const memory = new Uint8Array(loadAddon().alloc(4 << 20));
memory.forEach((_, at) => {
  memory[at] = Math.imul(at + 1, 2654435761) >>> 13;
});

describe.skipIf(path === undefined).each([1, 3])('the rooflines with %i threads', (threads) => {
  let rooflines: Rooflines;
  beforeAll(() => {
    rooflines = new (createRequire(import.meta.url)(path as string).Rooflines)(threads);
  });

  it('read every byte once, for any size, alignment and prefetch distance', () => {
    const tile = 1 << 17;
    for (const offset of [0, 1, 64]) {
      for (const bytes of [0, 1, 7, 8, 255, 256, 257, 4096, tile - 1, tile, tile + 9, 24 * tile + 13]) {
        const data = memory.subarray(offset, offset + bytes);
        const words = new BigUint64Array(data.slice(0, bytes - (bytes % 8)).buffer);
        let expected = words.reduce((sum, word) => sum + word, 0n);
        for (const byte of data.subarray(bytes - (bytes % 8))) expected += BigInt(byte);
        for (const ahead of [0, 1024, 4096]) {
          const { seconds, sum } = rooflines.readBytes(data, bytes, ahead);
          expect(sum).toBe(BigInt.asUintN(64, expected));
          expect(seconds).toBeGreaterThan(0);
        }
      }
    }
    expect(() => rooflines.readBytes(memory, memory.length + 1, 0)).toThrow(/too short/);
  });

  it.each([2, 4])('touch every line of a valid token once, and no other, with elements of %i bytes', (size) => {
    for (const offset of [0, 2 * size, 20 * size]) {
      for (const tokens of [1, 15, 64, 300]) {
        const [prompts, rows] = [2, tokens > 100 ? 40 : 2500]; // more rows than a tile has
        const lengths = Float64Array.from({ length: rows }, (_, row) => (memory[row] as number) % (tokens + 1));
        let packed = 0;
        const packedOffsets = lengths.map((length) => {
          packed += length;
          return packed - length;
        });
        for (const offsets of [packedOffsets, lengths.map((_, row) => row * tokens)]) {
          const promptStride = offsets === packedOffsets ? packed : rows * tokens;
          const data = memory.subarray(offset);
          let expected = 0n;
          for (let prompt = 0; prompt < prompts; prompt++) {
            for (let row = 0; row < rows; row++) {
              const begin = offset + (prompt * promptStride + (offsets[row] as number)) * size;
              const end = begin + (lengths[row] as number) * size;
              for (let at = begin; at < end; at = LINE * (Math.floor(at / LINE) + 1)) {
                expected += BigInt(memory[at] as number);
              }
            }
          }
          const { seconds, sum } = rooflines.touchLines(data, size, prompts, promptStride, offsets, lengths);
          expect(sum).toBe(expected);
          expect(seconds).toBeGreaterThan(0);
        }
      }
    }
  });

  it('do multiply-adds: x <- .999 x + .001 from 0 in the mean on every thread, and count every lane', () => {
    const lanesDone = (steps: number) => {
      const { seconds, count, sum } = rooflines.multiplyAdds(steps);
      expect(seconds).toBeGreaterThan(0);
      expect(Number.isInteger(count / (steps * threads))).toBe(true);
      const each = 1 - 0.999 ** steps;
      expect(sum / ((count / steps) * each)).toBeCloseTo(1, 3);
      return count / steps;
    };
    const lanes = lanesDone(100);
    expect(lanes).toBeGreaterThanOrEqual(4 * threads);
    expect(lanesDone(1000)).toBe(lanes);
  });

  describe('of a file', () => {
    const folder = mkdtempSync(join(tmpdir(), 'collapsar-rooflines-'));
    const file = join(folder, 'file');
    let fd: number;
    beforeAll(() => {
      writeFileSync(file, '');
      fd = openSync(file, 'r');
    });
    afterAll(() => {
      closeSync(fd);
      rmSync(folder, { recursive: true });
    });

    it('read all, in pieces of any size, and say where the file ends', () => {
      const [offset, bytes] = [1003, 3 * PIECE + 5];
      truncateSync(file, offset + bytes);
      for (const piece of [0, 1000, PIECE, 8 * PIECE]) {
        const { seconds, failure } = rooflines.readFile(fd, offset, bytes, piece);
        expect(failure).toBeNull();
        expect(seconds).toBeGreaterThan(0);
        expect(rooflines.readFile(fd, offset, bytes + 1, piece).failure).toEqual({ error: 0, offset: offset + bytes });
      }
    });
  });
});
