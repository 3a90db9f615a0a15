// Allocates memory for native code, and keeps foreign memory in place while a job reads it (HeldBuffers says how).
import { constants } from 'node:buffer';
import { types } from 'node:util';
import { MessageChannel, markAsUntransferable } from 'node:worker_threads';
import { ArgumentError } from '../checks/errors.js';
import { loadAddon } from './addon.js';
import type { DType, HostTensor, TensorData } from './tensor/tensor.js';

/** The largest ArrayBuffer that native code can hand to this version of Node, in bytes (4 GiB in Node 20). */
export const maxBufferBytes = constants.MAX_LENGTH;

const copiedBytes = 2 ** 20;
const copiedResizableBytes = 2 ** 26;
const wasmPageBytes = 2 ** 16;

// Getters of the language, so that a property defined on an object cannot deceive.
const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object;
function getter<T>(prototype: object, name: string): ((this: unknown) => T) | undefined {
  return Object.getOwnPropertyDescriptor(prototype, name)?.get as ((this: unknown) => T) | undefined;
}
const bufferOf = getter<ArrayBufferLike>(typedArrayPrototype, 'buffer') as (this: unknown) => ArrayBufferLike;
const byteLengthOf = getter<number>(typedArrayPrototype, 'byteLength') as (this: unknown) => number;
const lengthOf = getter<number>(typedArrayPrototype, 'length') as (this: unknown) => number;
const resizableOf = getter<boolean>(ArrayBuffer.prototype, 'resizable');

/** The true length of a typed array. */
export function lengthOfArray(array: ArrayBufferView): number {
  return lengthOf.call(array);
}

const engineBuffers = new WeakSet<ArrayBufferLike>();
const untransferable = new WeakSet<ArrayBufferLike>();

/**
 * Notes that a buffer came from native code. Native code knows anyway; this spares the buffer needless protection,
 * which small ones never get.
 */
export function noteEngineMemory<T extends ArrayBufferView>(array: T): T {
  if (array.buffer.byteLength > copiedBytes) engineBuffers.add(array.buffer);
  return array;
}

/**
 * Whether a transfer could detach the buffer now: not if it belongs to a WebAssembly.Memory or is marked as
 * untransferable. Naming a buffer twice is an error that Node raises before it detaches anything; what cannot be
 * detached, Node 20 passes over in silence and newer versions refuse with another message.
 */
function isDetachable(buffer: ArrayBuffer): boolean {
  const { port1, port2 } = new MessageChannel();
  try {
    port1.postMessage(null, [buffer, buffer]);
    return false;
  } catch (error) {
    return /duplicate/i.test((error as Error).message);
  } finally {
    port1.close();
    port2.close();
  }
}

// Buffers that running jobs read, and how many jobs each: while any does, transfer() on it throws.
const inUse = new WeakMap<ArrayBuffer, number>();
const transfers = ['transfer', 'transferToFixedLength'].filter((name) => name in ArrayBuffer.prototype);

function refuseTransfer(): never {
  throw new TypeError('this ArrayBuffer is being read by a collapsar job and cannot be transferred until it has ended');
}

function block(buffer: ArrayBuffer): void {
  const jobs = inUse.get(buffer) ?? 0;
  inUse.set(buffer, jobs + 1);
  if (jobs > 0) return;
  for (const name of transfers) {
    Object.defineProperty(buffer, name, { value: refuseTransfer, configurable: true, enumerable: false });
  }
}

function unblock(buffer: ArrayBuffer): void {
  const jobs = (inUse.get(buffer) ?? 1) - 1;
  if (jobs > 0) {
    inUse.set(buffer, jobs);
    return;
  }
  inUse.delete(buffer);
  for (const name of transfers) delete (buffer as unknown as Record<string, unknown>)[name];
}

/**
 * Buffers that one call has protected. A reference to an ArrayBuffer keeps the object alive but not its memory, which a
 * transfer, a shrink or the growth of a WebAssembly.Memory takes away at any moment. So a job works only on memory that
 * cannot go away:
 *
 *     engine memory            counted natively; a job holds it even if JavaScript transfers or drops the buffer
 *     SharedArrayBuffer        can neither be detached nor shrink; the job holds a reference
 *     other, up to 1 MiB       copied at the call
 *     other, larger            read in place and made untransferable, see protect()
 *     resizable, WebAssembly   copied at the call up to 64 MiB, refused above
 */
export class HeldBuffers {
  readonly #buffers: { buffer: ArrayBuffer; argument: string }[] = [];

  /**
   * Ensures that a job may read the array's memory in place, and says whether it may; if not, native code copies it.
   *
   * A fixed-length buffer over 1 MiB that is not the engine's becomes untransferable for good: `postMessage` and
   * `structuredClone` then copy it even if they are asked to transfer it (Node 20) or throw (Node 22 and later).
   * If ArrayBuffer has `transfer()`, calling it on this buffer throws until the job has ended. From Node 24 on
   * nothing else in JavaScript detaches such a buffer. Before, a BYOB stream reader that is given the buffer still
   * does, and so does `ArrayBuffer.prototype.transfer.call()`: do neither while a job reads it.
   * @throws ArgumentError for resizable and WebAssembly memory of more than 64 MiB
   */
  protect(array: ArrayBufferView, argument: string): boolean {
    const buffer = bufferOf.call(array);
    if (types.isSharedArrayBuffer(buffer) || engineBuffers.has(buffer)) return true;
    const bytes = byteLengthOf.call(array);
    if (bytes <= copiedBytes) return false;
    const own = buffer as ArrayBuffer;
    const resizable = resizableOf?.call(own) === true;
    if (resizable || (!untransferable.has(own) && own.byteLength % wasmPageBytes === 0 && !isDetachable(own))) {
      if (bytes <= copiedResizableBytes) return false;
      const kind = resizable ? 'a resizable ArrayBuffer' : 'WebAssembly memory or a buffer marked as untransferable';
      throw new ArgumentError(
        argument,
        `${bytes} bytes in ${kind}, which can be taken away while they are read; at most ${copiedResizableBytes} are ` +
          'copied: use engine.alloc() or a SharedArrayBuffer',
      );
    }
    if (!untransferable.has(own)) {
      markAsUntransferable(own);
      untransferable.add(own);
    }
    block(own);
    this.#buffers.push({ buffer: own, argument });
    return true;
  }

  /** Ends the protection. Returns the argument whose buffer was detached in spite of it, if one was. */
  release(): string | undefined {
    let detached: string | undefined;
    for (const { buffer, argument } of this.#buffers.splice(0)) {
      unblock(buffer);
      if (buffer.byteLength === 0) detached ??= argument;
    }
    return detached;
  }
}

export const elementBytes: Record<DType | 'int32', number> = {
  float64: 8,
  float32: 4,
  int32: 4,
  float16: 2,
  bfloat16: 2,
};

function arrayOver(dtype: DType, buffer: ArrayBufferLike): TensorData {
  if (dtype === 'float64') return new Float64Array(buffer);
  return dtype === 'float32' ? new Float32Array(buffer) : new Uint16Array(buffer);
}

/**
 * A tensor of zeros over native memory, row-major. Above `maxBufferBytes` over a SharedArrayBuffer, which has the same
 * properties. Untouched pages of either cost no memory.
 * @throws ArgumentError if the memory cannot be had
 */
export function allocTensor(dtype: DType, shape: readonly number[], elements: number): HostTensor {
  const bytes = elements * elementBytes[dtype];
  try {
    const data =
      bytes > maxBufferBytes
        ? arrayOver(dtype, new SharedArrayBuffer(bytes))
        : noteEngineMemory(arrayOver(dtype, loadAddon().alloc(bytes)));
    return { data, dtype, shape };
  } catch (error) {
    const problem =
      `cannot allocate ${bytes} bytes for ${dtype} [${shape.join(', ')}]: take fewer rows or prompts at a time, or run ` +
      'where there is more memory';
    throw new ArgumentError('shape', problem, { cause: error });
  }
}
