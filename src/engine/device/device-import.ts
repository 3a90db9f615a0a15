// Checks another process's CUDA IPC handles for the native import. Sources: CUDA runtime API (cudaIpc...), PyTorch's
// torch/csrc/StorageSharing.cpp, torch/csrc/CudaIPCTypes.h and c10/cuda/CUDACachingAllocator.cpp.
import { types } from 'node:util';
import { checkCount } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { elementBytes } from '../memory.js';
import type { DType } from '../tensor/tensor.js';
import { checkDType, checkShape, checkStrides, reachOf } from '../tensor/tensor-view.js';

/** Bytes, or their base64 (as they travel in JSON). */
export type Bytes = Uint8Array | string;

/**
 * A tensor in another process's GPU memory. The names are those of what PyTorch gives: with
 * `device, handle, bytes, offset, counter, counterIndex, event, eventRequired =
 * tensor.untyped_storage()._share_cuda_()`, and dtype, shape, strides and storageOffset of the tensor. `null` is the
 * same as leaving an optional one out.
 */
export interface DeviceImport {
  /** cudaIpcMemHandle_t: 64 bytes, or the 66 of PyTorch 2.5 and later, which put a version and a kind before them. */
  handle: Bytes;
  /** Where the storage starts in the allocation of the handle, in bytes. Default 0. */
  offset?: number | null | undefined;
  /** Length of the storage in bytes: nothing past it is read. */
  bytes: number;
  dtype: DType;
  shape: readonly number[];
  /** In elements. Default: row-major. */
  strides?: readonly number[] | null | undefined;
  /** First element of the tensor in the storage (`tensor.storage_offset()`). Default 0. */
  storageOffset?: number | null | undefined;
  /**
   * cudaIpcEventHandle_t, 64 bytes: no operation of the engine begins before this event. The producer keeps it as long
   * as the memory.
   */
  event?: Bytes | null | undefined;
  /** False: `event` means nothing (PyTorch has already waited). Default true. */
  eventRequired?: boolean | null | undefined;
  /**
   * PyTorch's count of the memory's users, by the name of its shared memory and the index in it: `dispose()` lowers it,
   * so that the trainer may use the memory again; an import that fails does as well. Without it, PyTorch never frees
   * what it has once handed over.
   */
  refCounter?: { name: Bytes; index: number } | null | undefined;
}

export interface ImportArguments {
  handle: Uint8Array;
  /** Byte offset of the tensor's first element from the start of the allocation. */
  offset: number;
  /** From its first element to its last. */
  byteLength: number;
  event: Uint8Array | undefined;
  counterName: string | undefined;
  counterIndex: number;
  dtype: DType;
  shape: number[];
  strides: number[];
}

const handleBytes = 64;
// CUDA_IPC_REF_COUNTER_FILE_SIZE
const countersOfAFile = 10_000;

function bytesOf(value: unknown, argument: string): Uint8Array {
  // A copy: what the caller does to its own later changes nothing.
  if (types.isUint8Array(value)) return Uint8Array.from(value);
  if (typeof value !== 'string') {
    throw new ArgumentError(argument, `got ${shown(value)}, expected a Uint8Array or base64`);
  }
  const decoded = Buffer.from(value, 'base64');
  const plain = (text: string): string => text.replace(/=+$/, '').replaceAll('-', '+').replaceAll('_', '/');
  if (plain(decoded.toString('base64')) !== plain(value)) {
    throw new ArgumentError(argument, `got ${shown(value)}, which is no base64`);
  }
  return Uint8Array.from(decoded);
}

function memoryHandle(value: unknown): Uint8Array {
  const argument = 'source.handle';
  const bytes = bytesOf(value, argument);
  if (bytes.length === handleBytes) return bytes;
  const kind = String.fromCharCode(bytes[1] ?? 0);
  if (kind === 'e' && bytes.length > 2) {
    throw new ArgumentError(
      argument,
      'it is of an expandable segment of PyTorch, which only PyTorch can open: start the trainer with ' +
        'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False, or copy the tensor into memory from another pool',
    );
  }
  if (kind !== 'c' || bytes.length !== handleBytes + 2) {
    throw new ArgumentError(
      argument,
      `got ${bytes.length} bytes, expected a cudaIpcMemHandle_t of ${handleBytes}, or PyTorch's of ${handleBytes + 2} ` +
        'with "c" as the second',
    );
  }
  return bytes.subarray(2);
}

function count(value: unknown, argument: string): number {
  checkCount(value, argument);
  return value;
}

function eventHandle(source: DeviceImport): Uint8Array | undefined {
  const { event, eventRequired } = source;
  if (eventRequired !== undefined && eventRequired !== null && typeof eventRequired !== 'boolean') {
    throw new ArgumentError('source.eventRequired', `got ${shown(eventRequired)}, expected a boolean`);
  }
  if (eventRequired === false) return undefined;
  if (event === undefined || event === null) {
    if (eventRequired === true) {
      throw new ArgumentError('source.event', 'missing, although source.eventRequired says that it must be waited for');
    }
    return undefined;
  }
  const bytes = bytesOf(event, 'source.event');
  if (bytes.length !== handleBytes) {
    throw new ArgumentError(
      'source.event',
      `got ${bytes.length} bytes, expected a cudaIpcEventHandle_t of ${handleBytes}`,
    );
  }
  return bytes;
}

function counter(value: unknown): { name: string; index: number } | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object') {
    throw new ArgumentError('source.refCounter', `got ${shown(value)}, expected { name, index }`);
  }
  const { name: given, index: givenIndex } = value as { name: unknown; index: unknown };
  // Only names as PyTorch makes them: the sender of a description must not have any other shared memory of this user
  // counted down.
  const shape = /^\/torch_[A-Za-z0-9_.-]{1,200}$/;
  // A name cannot be mistaken for its base64, which starts with L (from the slash).
  const name =
    typeof given === 'string' && shape.test(given)
      ? given
      : Buffer.from(bytesOf(given, 'source.refCounter.name')).toString('latin1').replace(/\0$/, '');
  if (!shape.test(name) || name.includes('..')) {
    throw new ArgumentError('source.refCounter.name', `got ${shown(name)}, expected a name as "/torch_…"`);
  }
  const index = count(givenIndex, 'source.refCounter.index');
  if (index >= countersOfAFile) {
    throw new ArgumentError('source.refCounter.index', `got ${index}, expected 0 to ${countersOfAFile - 1}`);
  }
  return { name, index };
}

/** @throws ArgumentError naming the field of `source` that is wrong */
export function importArguments(source: DeviceImport): ImportArguments {
  if (source === null || typeof source !== 'object') {
    throw new ArgumentError('source', `got ${shown(source)}, expected { handle, bytes, dtype, shape, … }`);
  }
  const { dtype } = source;
  checkDType(dtype, 'source.dtype');
  const { shape } = checkShape(source.shape, 'source.shape');
  const strides = checkStrides(source.strides ?? undefined, shape, 'source.strides');
  const size = elementBytes[dtype];
  const storageBytes = count(source.bytes, 'source.bytes');
  const first = count(source.storageOffset ?? 0, 'source.storageOffset');
  const reach = reachOf(shape, strides, 'source.strides');
  if (first + reach > Math.floor(storageBytes / size)) {
    throw new ArgumentError(
      'source.bytes',
      `[${shape.join(', ')}] from element ${first} reaches ${(first + reach) * size} bytes of ${dtype}, but the storage has ` +
        `${storageBytes}`,
    );
  }
  const storageStart = count(source.offset ?? 0, 'source.offset');
  const offset = storageStart + first * size;
  if (offset % size !== 0) {
    throw new ArgumentError('source.offset', `got ${storageStart}, expected a multiple of ${size} for ${dtype}`);
  }
  const users = counter(source.refCounter);
  return {
    handle: memoryHandle(source.handle),
    offset,
    byteLength: reach * size,
    event: eventHandle(source),
    counterName: users?.name,
    counterIndex: users?.index ?? 0,
    dtype,
    shape,
    strides,
  };
}
