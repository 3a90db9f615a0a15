// A tensor in the memory of a GPU: allocated or uploaded by an engine, or imported from another process.

import { DisposedError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import type { DeviceMemory } from '../device/device-memory.js';
import type { HostIntegers, HostTensor } from './tensor.js';

/** The device of an engine, as its tensors need it. */
export interface DeviceOwner {
  readonly name: `cuda:${number}`;
  /** Whether the engine was disposed, and all memory of the GPU with it. */
  readonly closed: boolean;
  /** Frees memory once the jobs before have ended. */
  free(memory: DeviceMemory): Promise<void>;
  /** Frees the memory of a tensor that was forgotten; false if the engine's end did. */
  reclaim(memory: DeviceMemory): boolean;
  download<Host extends HostTensor | HostIntegers>(
    tensor: DeviceTensor<Host>,
    memory: DeviceMemory,
    options: OperationOptions,
  ): Promise<Host>;
}

/** What is needed to free the memory of a tensor that nobody holds any more, and to say whose it was. */
interface Leak {
  device: DeviceOwner;
  memory: DeviceMemory;
  what: string;
  allocatedAt: string | undefined;
}

// Not the engine's: a registry that is collected with its engine would report nothing.
const leaks = new FinalizationRegistry<Leak>(({ device, memory, what, allocatedAt }) => {
  if (!device.reclaim(memory)) return; // its engine was disposed, and all its memory with it
  const where =
    allocatedAt === undefined ? 'COLLAPSAR_DEBUG=1 in the environment says where it was allocated' : allocatedAt;
  process.emitWarning(`${what} was never disposed: call dispose() or declare it with "await using"; ${where}`, {
    type: 'CollapsarWarning',
    code: 'COLLAPSAR_DEVICE_TENSOR_LEAK',
  });
});

/**
 * @internal The caller's frames of the stack, if COLLAPSAR_DEBUG wants them; to be asked for before anything is
 *   awaited.
 */
export function callSite(): string | undefined {
  if (!process.env.COLLAPSAR_DEBUG) return undefined;
  const frames = new Error().stack?.split('\n').slice(1) ?? [];
  // Everything up to the last frame of this folder is the engine's own.
  const own = frames.findLastIndex((frame) =>
    /[\\/]engine[\\/](device-tensor|engine-device|engine)\.[jt]s/.test(frame),
  );
  return `it was allocated\n${frames.slice(own + 1).join('\n')}`;
}

/**
 * A tensor on the GPU of one engine, which takes it wherever it takes a Tensor (`engine.logitStats(deviceTensor)`).
 * Its memory stays until `dispose()`, or until the engine is disposed; one that is forgotten is freed some time after
 * the garbage collector finds it, with a process warning. Made by `engine.upload`, `allocDevice` and `importDevice`,
 * and by operations with `out: 'device'`, whose columns and counts are a `DeviceTensor<HostIntegers>`: of dtype int32,
 * to be downloaded or handed on, but no input of an operation.
 */
export class DeviceTensor<Host extends HostTensor | HostIntegers = HostTensor> {
  /** Type of its elements. */
  readonly dtype: Host['dtype'];
  /** In elements, an axis each. */
  readonly shape: readonly number[];
  /** In elements, one an axis. */
  readonly strides: readonly number[];
  /** Where it is. */
  readonly device: `cuda:${number}`;
  /** From its first to its last element, in bytes. */
  readonly byteLength: number;
  readonly #owner: DeviceOwner;
  readonly #memory: DeviceMemory;
  #freed: Promise<void> | undefined;

  /** @internal */
  constructor(
    owner: DeviceOwner,
    memory: DeviceMemory,
    dtype: Host['dtype'],
    shape: readonly number[],
    strides: readonly number[],
    byteLength: number,
    allocatedAt: string | undefined,
  ) {
    this.#owner = owner;
    this.#memory = memory;
    this.dtype = dtype;
    this.shape = Object.freeze([...shape]);
    this.strides = Object.freeze([...strides]);
    this.device = owner.name;
    this.byteLength = byteLength;
    const what = `a DeviceTensor ${dtype} [${shape.join(', ')}] of ${byteLength} bytes on ${owner.name}`;
    leaks.register(this, { device: owner, memory, what, allocatedAt }, this);
  }

  /** Itself, so that it is a Tensor. */
  get data(): this {
    return this;
  }

  /** Whether `dispose()` was called, or the engine disposed. */
  get disposed(): boolean {
    return this.#freed !== undefined || this.#owner.closed;
  }

  /**
   * A copy in host memory, with the same strides: an Int32Array if it is of int32.
   * @throws DisposedError, DeviceError, or `signal.reason` (as a rejection)
   */
  async download(options: OperationOptions = {}): Promise<Host> {
    return this.#owner.download(this, this.memoryFor('download', this.#owner), options);
  }

  /**
   * Frees the memory when the calls that were made before have ended with it; resolves when it is free. Memory of
   * another process is given back to it. Later uses reject with DisposedError. Disposing twice does nothing.
   */
  dispose(): Promise<void> {
    if (this.#freed === undefined) {
      leaks.unregister(this);
      this.#freed = this.#owner.free(this.#memory);
    }
    return this.#freed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** @internal Whether it belongs to this engine's device. */
  isOf(owner: DeviceOwner): boolean {
    return owner === this.#owner;
  }

  /**
   * @internal
   * @throws DisposedError
   */
  memoryFor(what: string, owner: DeviceOwner): DeviceMemory {
    if (owner.closed) throw new DisposedError(what);
    if (this.#freed !== undefined) {
      throw new DisposedError(what, 'the device tensor was disposed; upload or import it again');
    }
    return this.#memory;
  }
}
