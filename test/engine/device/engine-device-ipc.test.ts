// Tensors of another process by CUDA IPC: two real processes, handles as PyTorch gives them, its events and its counts.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ArgumentError, DeviceError } from '../../../src/checks/errors.js';
import { type DeviceImport, importArguments } from '../../../src/engine/device/device-import.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { type Produced, produce } from './device-producer.js';
import { emulatedPath, hasBackend, openOnDevice, setEmulation } from './engine-device-backend.js';

beforeEach(() => setEmulation());

const elements = 3 * 4;
const values = Float32Array.from({ length: elements }, (_, i) => -i - 1);
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

describe('what describes a tensor of another process', () => {
  const handle = Uint8Array.from({ length: 64 }, (_, i) => i);
  const source: DeviceImport = { handle, bytes: 48, dtype: 'float32', shape: [3, 4] };

  it('is taken as PyTorch gives it: bytes or base64, with its prefix or without', () => {
    for (const prefix of [[], [1, 0x63], [3, 0x63]]) {
      const whole = Uint8Array.of(...prefix, ...handle);
      for (const given of [whole, base64(whole), base64(whole).replaceAll('=', '')]) {
        expect(importArguments({ ...source, handle: given }).handle).toEqual(handle);
      }
    }
    const event = Uint8Array.from({ length: 64 }, () => 7);
    const all = importArguments({
      ...source,
      offset: 512,
      bytes: 400,
      storageOffset: 20,
      strides: [8, 1],
      event: base64(event),
      eventRequired: true,
      refCounter: { name: base64(Buffer.from('/torch_12_34_0')), index: 9 },
    });
    expect(all).toMatchObject({ offset: 512 + 80, byteLength: 20 * 4, counterName: '/torch_12_34_0', counterIndex: 9 });
    expect([all.event, all.strides]).toEqual([event, [8, 1]]);
    // PyTorch leaves the event's bytes as they were where it has waited itself.
    expect(importArguments({ ...source, event, eventRequired: false }).event).toBeUndefined();
    const nothing = importArguments({ ...source, offset: null, strides: null, event: null, refCounter: null });
    expect([nothing.offset, nothing.strides, nothing.event, nothing.counterName]).toEqual([
      0,
      [4, 1],
      undefined,
      undefined,
    ]);
    expect(importArguments({ ...source, refCounter: { name: '/torch_1_2_3', index: 0 } }).counterName).toBe(
      '/torch_1_2_3',
    );
  });

  const wrong: [string, string, RegExp, object][] = [
    ['no object', 'source', /got null/, null as never],
    ['a handle of another length', 'source.handle', /got 63 bytes/, { handle: handle.subarray(1) }],
    ['a handle that is no base64', 'source.handle', /which is no base64/, { handle: '%%%' }],
    [
      'a handle of an unknown kind',
      'source.handle',
      /"c" as the second/,
      { handle: Uint8Array.of(2, 0x78, ...handle) },
    ],
    [
      'an expandable segment',
      'source.handle',
      /PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False/,
      { handle: Uint8Array.of(2, 0x65, 1, 2, 3, 4) },
    ],
    [
      'a shape beyond the storage',
      'source.bytes',
      /reaches 52 bytes of float32, but the storage has 48/,
      { storageOffset: 1 },
    ],
    ['strides beyond the storage', 'source.bytes', /reaches 80 bytes/, { strides: [8, 1] }],
    ['a negative stride', 'source.strides', /axis 0 is -4/, { strides: [-4, 1] }],
    ['an offset between elements', 'source.offset', /expected a multiple of 4/, { offset: 2 }],
    ['a negative offset', 'source.offset', /got -4/, { offset: -4 }],
    ['no bytes', 'source.bytes', /got undefined/, { bytes: undefined }],
    ['a dtype of torch', 'source.dtype', /got "torch.float32"/, { dtype: 'torch.float32' }],
    ['an event of another length', 'source.event', /got 3 bytes/, { event: new Uint8Array(3) }],
    ['a required event that is missing', 'source.event', /missing/, { eventRequired: true }],
    [
      'a count by a path',
      'source.refCounter.name',
      /expected a name/,
      { refCounter: { name: base64(Buffer.from('/../etc/passwd')), index: 0 } },
    ],
    [
      "a count in another program's memory",
      'source.refCounter.name',
      /expected a name as "\/torch_…"/,
      { refCounter: { name: base64(Buffer.from('/psm_1a2b3c')), index: 0 } },
    ],
    [
      'a count out of range',
      'source.refCounter.index',
      /0 to 9999/,
      { refCounter: { name: '/torch_1', index: 10_000 } },
    ],
  ];
  it.each(wrong)('is checked: %s', (_, argument, message, more) => {
    const given = more === null ? null : { ...source, ...more };
    const call = () => importArguments(given as never);
    expect(call).toThrow(ArgumentError);
    expect(call).toThrow(expect.objectContaining({ argument, message: expect.stringMatching(message) }));
  });
});

describe.skipIf(!hasBackend)('a tensor of another process', () => {
  let made: Produced;
  let source: DeviceImport;
  beforeAll(async () => {
    setEmulation();
    made = await produce(values);
    source = { handle: made.handle, offset: made.offset, bytes: elements * 4, dtype: 'float32', shape: [3, 4] };
  });
  afterAll(() => void made.child.stdin?.end());

  it('is read where it is', async () => {
    await using engine = await openOnDevice();
    await using tensor = await engine.importDevice(source);
    expect([...(await tensor.download()).data]).toEqual([...values]);
    const stats = await engine.scoreStats(tensor, { own: [0, 1, 2], lengths: [1, 1, 1] });
    expect([...stats.matchedSeq]).toEqual([-1, -6, -11]);
  });

  it('is read from some element on and with strides, by the prefixed handle', async () => {
    await using engine = await openOnDevice({ device: 'auto' });
    const handle = Uint8Array.of(2, 0x63, ...Buffer.from(made.handle, 'base64'));
    await using tensor = await engine.importDevice({
      ...source,
      handle,
      storageOffset: 1,
      shape: [3, 2],
      strides: [4, 2],
    });
    const stats = await engine.scoreStats(tensor, { own: [0, 1, 1], lengths: [1, 1, 1] });
    expect([...stats.matchedSeq]).toEqual([-2, -8, -12]);
  });

  it('by two engines, and again after it was let go', async () => {
    await using engine = await openOnDevice();
    await using other = await openOnDevice();
    for (let round = 0; round < 3; round++) {
      await using tensor = await engine.importDevice(source);
      await using same = await other.importDevice(source);
      expect((await tensor.download()).data).toEqual((await same.download()).data);
    }
  });

  it('lowers PyTorch’s count when it is let go, by dispose or with the engine', async () => {
    const name = `/torch_${process.pid}_1234_0`;
    const file = `/dev/shm${name}`;
    const counts = (): bigint[] => [...new BigInt64Array(readFileSync(file).buffer.slice(64, 64 + 4 * 8))];
    // 64 bytes of PyTorch's own, then its counts.
    const bytes = new Uint8Array(64 + 10_000 * 8);
    new BigInt64Array(bytes.buffer, 64).set([5n, 1n, 2n, 0n]);
    writeFileSync(file, bytes);
    try {
      const engine = await openOnDevice();
      const counted = (index: number) => engine.importDevice({ ...source, refCounter: { name, index } });
      const first = await counted(1);
      await counted(2);
      await counted(3);
      await engine.importDevice({ ...source, refCounter: { name: '/torch_gone_1', index: 0 } });
      expect(counts()).toEqual([5n, 1n, 2n, 0n]);
      await first.dispose();
      expect(counts()).toEqual([5n, 0n, 2n, 0n]);
      // An import that fails, or is given up, has used it as well.
      await failure(engine.importDevice({ ...source, handle: new Uint8Array(64), refCounter: { name, index: 0 } }));
      await vi.waitFor(() => expect(counts()).toEqual([4n, 0n, 2n, 0n]));
      const abort = new AbortController();
      const given = engine.importDevice({ ...source, refCounter: { name, index: 0 } }, { signal: abort.signal });
      abort.abort();
      await failure(given);
      await vi.waitFor(() => expect(counts()).toEqual([3n, 0n, 2n, 0n]));
      await engine.dispose();
      expect(counts()).toEqual([3n, 0n, 1n, 0n]);
    } finally {
      rmSync(file);
    }
  });

  it('by a handle that is none', async () => {
    await using engine = await openOnDevice();
    const error = await failure(engine.importDevice({ ...source, handle: new Uint8Array(64) }));
    expect(error).toBeInstanceOf(DeviceError);
    expect((error as DeviceError).reason).toBe('bad_handle');
    await using tensor = await engine.importDevice(source);
    expect((await tensor.download()).data[0]).toBe(-1);
  });
});

/** A tensor of another process whose event has yet to happen: where an event is a file, on the emulated GPU. */
async function produceLater(): Promise<{ source: DeviceImport; happens(): void; end(): void }> {
  const { child, handle, offset } = await produce(values);
  const folder = mkdtempSync(join(tmpdir(), 'ev-'));
  const path = join(folder, 'event');
  const event = new Uint8Array(64);
  event.set(Buffer.from(path));
  return {
    source: { handle, offset, bytes: elements * 4, dtype: 'float32', shape: [3, 4], event },
    happens: () => writeFileSync(path, ''),
    end: () => {
      child.stdin?.end();
      rmSync(folder, { recursive: true });
    },
  };
}

describe.skipIf(emulatedPath === undefined)('between processes, where an event is a file', () => {
  it('nothing reads the memory before the event has happened', async () => {
    const { source, happens, end } = await produceLater();
    try {
      await using engine = await openOnDevice();
      await using tensor = await engine.importDevice(source);
      let ended = false;
      const running = engine.logitStats(tensor).finally(() => {
        ended = true;
      });
      await sleep(100);
      expect(ended).toBe(false);
      happens();
      expect((await running).rows).toBe(3);
    } finally {
      end();
    }
  });

  it('a producer that never comes holds up nothing that has let go of its tensor', async () => {
    const { source, end } = await produceLater();
    try {
      await using engine = await openOnDevice();
      await using other = await engine.importDevice({ ...source, event: undefined });
      const tensor = await engine.importDevice(source);
      for (const some of [tensor, other]) {
        const controller = new AbortController();
        const waiting = engine.logitStats(some, { signal: controller.signal });
        await sleep(20);
        controller.abort();
        await expect(waiting).rejects.toBe(controller.signal.reason);
      }
      await tensor.dispose();
      await other.dispose();
      await using own = await engine.upload({ data: values, dtype: 'float32', shape: [3, 4] });
      expect((await engine.logitStats(own)).rows).toBe(3);
      // Nor does an engine that is left with such a tensor.
      await engine.importDevice(source);
    } finally {
      end();
    }
  });
});

describe.skipIf(emulatedPath === undefined)('between processes', () => {
  it('memory of a process that has ended is a bad handle', async () => {
    const { child, handle, offset } = await produce(values);
    child.stdin?.end();
    await new Promise((resolve) => child.once('exit', resolve));
    await using engine = await openOnDevice();
    const error = await failure(engine.importDevice({ handle, offset, bytes: 48, dtype: 'float32', shape: [12] }));
    expect(error).toMatchObject({ reason: 'bad_handle', message: /must come from another live process/ });
  });

  it('an engine without a GPU says so', async () => {
    await using engine = await openEngine({ device: 'cpu', threads: 1 });
    const source: DeviceImport = { handle: new Uint8Array(64), bytes: 4, dtype: 'float32', shape: [1] };
    expect(await failure(engine.importDevice(source))).toMatchObject({ code: 'ERR_DEVICE' });
  });
});
