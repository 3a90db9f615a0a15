// Replays the seeds of the fuzzer: each is read or refused, as its name says. The guards of the fuzzer find what they
// are there for.
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../../fuzz/seeds.js';
import { Misuse, readAsStep, TARGETS, useSidecars } from '../../fuzz/targets.js';
import { FileError } from '../../src/checks/errors.js';
import type { ByteSource } from '../../src/logs/stores/byte-source.js';
import { STORES, type Store } from '../../src/logs/stores/store.js';

useSidecars(seedsOf('fuzz/sidecars'));

/** Enough to say what a reader takes and what it refuses; what the fuzzer finds beyond is kept outside git. */
const MOST_SEEDS = 20;

describe.each(TARGETS)('the seeds of $name', (target) => {
  const { seeds } = target;
  const advice = `${seeds}: a target has small inputs that are read (read-….${target.ending.slice(1)}) and that are refused (refused-…)`;
  const inputs = seedsOf(seeds);

  it('are a few of either kind', () => {
    const kinds = new Set([...inputs.keys()].map((name) => /^(read|refused)-[a-z0-9-]+\.[a-z]+$/.exec(name)?.[1]));
    expect(kinds, advice).toEqual(new Set(['read', 'refused']));
    expect(inputs.size, advice).toBeLessThanOrEqual(MOST_SEEDS);
  });

  it('are read, or refused with a FileError, as their names say; no two are refused for the same reason', async () => {
    const reasons = new Map<string, string>();
    for (const [file, input] of inputs) {
      const outcome = await readAsStep(target, input);
      expect(outcome === undefined ? 'read' : 'refused', `${file}: ${outcome?.message}`).toBe(file.split('-')[0]);
      if (outcome === undefined) continue;
      expect(outcome, file).toBeInstanceOf(FileError);
      const reason = outcome.message.replace(/\d+/g, '#');
      expect(reasons.get(reason), `${file}: ${reason}`).toBeUndefined();
      reasons.set(reason, file);
    }
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
