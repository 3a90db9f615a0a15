// Where frames of zstd begin among others that hold no data; on any Node, also those that cannot unpack them.
import { expect, it } from 'vitest';
import { beginsZstd, zstdFrames } from '../../src/logs/formats/zstd-frames.js';
import type { ByteSource } from '../../src/logs/stores/byte-source.js';

function sourceOf(bytes: Buffer): ByteSource {
  return {
    path: 'memory',
    bytes: bytes.length,
    revision: '',
    stamp: '',
    read: async (target, position) => {
      expect(position + target.length).toBeLessThanOrEqual(bytes.length);
      target.set(bytes.subarray(position, position + target.length));
    },
    checkUnchanged: async () => undefined,
    close: async () => undefined,
  };
}

const FRAME = Buffer.from('28b52ffd', 'hex');
const skipped = (bytes: number, number = 0) =>
  Buffer.concat([Buffer.of(0x50 + number, 0x2a, 0x4d, 0x18, bytes, 0, 0, 0), Buffer.alloc(bytes)]);

const search = (...parts: Buffer[]) => {
  const bytes = Buffer.concat([Buffer.of(1, 2, 3), ...parts]);
  return zstdFrames(sourceOf(bytes), 3, bytes.length, {});
};

it('is found where it is, or behind those without data', async () => {
  expect(await search(FRAME)).toBe(3);
  expect(await search(skipped(0), FRAME)).toBe(11);
  expect(await search(skipped(9, 15), skipped(2), FRAME, skipped(4))).toBe(30);
});

it('at the end there is none, but what was passed over', async () => {
  expect(await search()).toBe(undefined);
  expect(await search(skipped(6))).toBe(17);
});

it.each([
  ['something else', Buffer.from('hello')],
  ['too few bytes', Buffer.from('28b52f', 'hex')],
  ['a frame without data that is cut', skipped(6).subarray(0, 13)],
  ['the size of such a frame cut', skipped(6).subarray(0, 6)],
  ['zeros', Buffer.alloc(20)],
  ['too many without data', Buffer.concat([...new Array<Buffer>(70_000).fill(skipped(0)), FRAME])],
])('%s is none', async (_, bytes) => {
  expect(await search(bytes)).toBe(undefined);
  expect(await search(skipped(1), bytes)).toBe(undefined);
});

it('a file begins with a frame of either kind', () => {
  expect([FRAME, skipped(0), skipped(0, 15)].map(beginsZstd)).toEqual([true, true, true]);
  expect([Buffer.alloc(0), FRAME.subarray(1), Buffer.from('1f8b0800', 'hex')].map(beginsZstd)).toEqual([
    false,
    false,
    false,
  ]);
});
