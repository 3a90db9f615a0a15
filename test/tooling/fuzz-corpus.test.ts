// The corpus of fuzz/, replayed: every input that once reached something new is still read or refused, and what guards
// the fuzzing does find what it is there for.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Misuse, readAsStep, TARGETS, useSidecars } from '../../fuzz/targets.js';
import { FileError } from '../../src/checks/errors.js';
import type { ByteSource } from '../../src/logs/stores/byte-source.js';
import { STORES, type Store } from '../../src/logs/stores/store.js';

const folder = (name: string) => readdirSync(join('fuzz', name)).map((file) => join('fuzz', name, file));

useSidecars(new Map(folder('sidecars').map((file) => [file.slice('fuzz/sidecars/'.length), readFileSync(file)])));

describe.each(TARGETS)('$name', (target) => {
  it('every input is read, or refused with a FileError', async () => {
    const outcomes = new Set<string>();
    for (const file of folder(`corpus/${target.name}`)) {
      const outcome = await readAsStep(target, readFileSync(file));
      if (outcome !== undefined) expect(outcome, file).toBeInstanceOf(FileError);
      outcomes.add(outcome === undefined ? 'read' : 'refused');
    }
    expect(outcomes).toEqual(new Set(['read', 'refused']));
  });
});

describe('what guards the fuzzing', () => {
  const target = TARGETS[0] as (typeof TARGETS)[number];
  /** Runs `use` with the source and within the guard that the reader has. */
  async function during(use: (source: ByteSource) => unknown): Promise<unknown> {
    const store = STORES.find(({ scheme }) => scheme === 'memory://') as Store & { open: Store['open'] };
    const { open } = store;
    Object.assign(store, {
      open: async (path: string, options: object) => {
        const source = await open(path, options);
        await use(source);
        return source;
      },
    });
    try {
      return await readAsStep(target, Buffer.alloc(4)).catch((error: unknown) => error);
    } finally {
      Object.assign(store, { open });
    }
  }

  it.each([
    [3, 2],
    [-1, 1],
    [Number.NaN, 1],
    [5, 0],
  ])('finds a read at %d of %d bytes, past the end', async (at, bytes) => {
    expect(await during((source) => source.read(new Uint8Array(bytes), at))).toBeInstanceOf(Misuse);
    expect(await during((source) => source.read(new Uint8Array(1), 3))).toBeInstanceOf(FileError);
  });

  it.each([
    ['Buffer.alloc', (bytes: number) => Buffer.alloc(bytes)],
    ['Buffer.allocUnsafe', (bytes: number) => Buffer.allocUnsafe(bytes)],
    ['ArrayBuffer', (bytes: number) => new ArrayBuffer(bytes)],
    ['SharedArrayBuffer', (bytes: number) => new SharedArrayBuffer(bytes)],
  ])('finds more memory than the file warrants by %s', async (_name, allocate) => {
    expect(await during(() => allocate(2 ** 20 + 5))).toBeInstanceOf(Misuse);
    expect(await during(() => allocate(2 ** 20 + 4))).toBeInstanceOf(FileError);
  });

  it('finds any other error', async () => {
    expect(await during(() => (undefined as unknown as ByteSource).bytes)).toBeInstanceOf(TypeError);
  });
});
