// An engine's GPU: opening it when it is first needed, and its memory as DeviceTensors.

import { DisposedError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { checkOptions } from '../../checks/options.js';
import { allocTensor, elementBytes, type HeldBuffers } from '../memory.js';
import type { NativeEngine, NativeResults, Settle } from '../native.js';
import type { RunningJobs } from '../running-jobs.js';
import { callSite, DeviceTensor } from '../tensor/device-tensor.js';
import type { DType, HostIntegers, HostTensor } from '../tensor/tensor.js';
import { dtypeCode, type HostView, reachOf, rowMajor } from '../tensor/tensor-view.js';
import type { CudaDevice } from './cuda-device.js';
import type { CudaMachine } from './cuda-probe.js';
import { type DeviceImport, importArguments } from './device-import.js';
import type { DeviceMemory } from './device-memory.js';
import { memoryIn, type ResultTensor, tensorsOf } from './device-results.js';

/** Which GPU an engine has, and what it does with it. */
export interface ChosenDevice {
  readonly machine: CudaMachine;
  readonly index: number;
  /** Whether operations on host tensors run there, too. */
  readonly takesHostTensors: boolean;
}

/** The GPU of an engine, or why it has none. */
export interface Placement {
  readonly fallback: string | null;
  readonly chosen?: ChosenDevice;
}

export class EngineDevice {
  readonly name: `cuda:${number}`;
  readonly gpu: CudaDevice;
  readonly takesHostTensors: boolean;
  readonly #native: NativeEngine;
  readonly #jobs: RunningJobs;
  readonly #path: string;
  #opening: Promise<void> | undefined;
  #opened = false;
  #closed = false;

  constructor(native: NativeEngine, jobs: RunningJobs, { machine, index, takesHostTensors }: ChosenDevice) {
    this.#native = native;
    this.#jobs = jobs;
    this.#path = machine.path;
    this.name = `cuda:${index}`;
    this.gpu = Object.freeze(machine.devices[index] as CudaDevice);
    this.takesHostTensors = takesHostTensors;
  }

  /** Whether the engine was disposed, and all memory of the GPU with it. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Opens it unless it is open.
   * @throws DeviceError (as a rejection), or `signal.reason`
   */
  async open(options: OperationOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    this.#opening ??= this.#jobs
      .run<undefined, void>(
        'openEngine',
        // Not with a caller's signal: others may wait for the same.
        {},
        (settle) => this.#native.openDevice(settle, this.#path, this.gpu.index, this.takesHostTensors),
        () => {
          this.#opened = true;
        },
      )
      .catch((error: unknown) => {
        this.#opening = undefined; // another process may have taken the GPU for a while
        throw error;
      });
    await this.#opening;
  }

  /** Before the engine's threads end. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#opening !== undefined) this.#native.closeDevice(() => undefined);
  }

  memory(options: OperationOptions): Promise<{ freeBytes: number; totalBytes: number }> {
    return this.#run<NativeResults['deviceMemory'], { freeBytes: number; totalBytes: number }>(
      'deviceMemory',
      options,
      (settle) => this.#native.deviceMemory(settle),
      (memory) => memory,
    );
  }

  alloc(dtype: DType, shape: readonly number[], elements: number, options: OperationOptions): Promise<DeviceTensor> {
    const byteLength = elements * elementBytes[dtype];
    const from = callSite();
    return this.#make(
      'allocDevice',
      options,
      (settle) => this.#native.allocDevice(settle, byteLength),
      (memory) => new DeviceTensor(this, memory, dtype, shape, rowMajor(shape), byteLength, from),
    );
  }

  upload(view: HostView, options: OperationOptions): Promise<DeviceTensor> {
    const { data, dtype, shape, strides } = view;
    // With the gaps that strides leave, so that the bytes go over as they lie.
    const elements = reachOf(shape, strides, 'tensor.strides');
    const from = callSite();
    return this.#make(
      'upload',
      options,
      (settle, held) => this.#native.uploadDevice(settle, data, view.code, held.protect(data, 'tensor'), elements),
      (memory) => new DeviceTensor(this, memory, dtype, shape, strides, elements * elementBytes[dtype], from),
    );
  }

  async download<Host extends HostTensor | HostIntegers>(
    tensor: DeviceTensor<Host>,
    memory: DeviceMemory,
    options: OperationOptions,
  ): Promise<Host> {
    checkOptions(options);
    const { shape, strides, byteLength } = tensor;
    const dtype: DType | 'int32' = tensor.dtype;
    // Native code copies the bytes as they lie: to it, four of them are a float32.
    const copied = dtype === 'int32' ? 'float32' : dtype;
    const elements = byteLength / elementBytes[copied];
    const { data } = allocTensor(copied, [elements], elements);
    const given = dtype === 'int32' ? new Int32Array(data.buffer) : data;
    return this.#run<NativeResults['downloadDevice'], Host>(
      'download',
      options,
      (settle) => this.#native.downloadDevice(settle, memory, data, dtypeCode(copied), elements),
      () => ({ data: given, dtype, shape, strides }) as unknown as Host,
    );
  }

  /**
   * Runs an operation whose results stay here. Native code allocates them and frees what it allocated unless the job
   * ends well; a result that comes too late for an aborted call is freed here.
   */
  keep<Result>(
    operation: string,
    options: OperationOptions,
    start: (settle: Settle, held: HeldBuffers) => number,
  ): Promise<Result> {
    const from = callSite();
    const tensor = (memory: DeviceMemory, dtype: 'float64' | 'int32', shape: readonly number[]): ResultTensor => {
      const bytes = shape.reduce((product, extent) => product * extent, elementBytes[dtype]);
      return new DeviceTensor<HostTensor | HostIntegers>(
        this,
        memory,
        dtype,
        shape,
        rowMajor(shape),
        bytes,
        from,
      ) as ResultTensor;
    };
    return this.#run<object, Result>(
      operation,
      options,
      start,
      (native) => tensorsOf(native, tensor) as Result,
      (native) => {
        for (const memory of memoryIn(native)) this.reclaim(memory);
      },
    );
  }

  async import(source: DeviceImport, options: OperationOptions): Promise<DeviceTensor> {
    const wanted = importArguments(source);
    const { dtype, shape, strides, byteLength } = wanted;
    const from = callSite();
    return this.#make(
      'importDevice',
      options,
      (settle) =>
        this.#native.importDevice(
          settle,
          wanted.handle,
          wanted.offset,
          byteLength,
          wanted.event,
          wanted.counterName,
          wanted.counterIndex,
        ),
      (memory) => new DeviceTensor(this, memory, dtype, shape, strides, byteLength, from),
    );
  }

  /** Frees memory once the jobs before have ended. Resolves at once if the engine's end has freed it or will. */
  free(memory: DeviceMemory): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#native.freeDevice(() => resolve(), memory);
    });
  }

  /** Frees the memory of a tensor that was forgotten; false if the engine's end did. */
  reclaim(memory: DeviceMemory): boolean {
    if (this.#closed) return false;
    void this.free(memory);
    return true;
  }

  #make(
    operation: string,
    options: OperationOptions,
    start: (settle: Settle, held: HeldBuffers) => number,
    finish: (memory: DeviceMemory) => DeviceTensor,
  ): Promise<DeviceTensor> {
    // Memory that came too late for an aborted call belongs to nobody.
    const discard = (memory: DeviceMemory): void => void this.reclaim(memory);
    return this.#run<DeviceMemory, DeviceTensor>(operation, options, start, finish, discard);
  }

  async #run<Native, Result>(
    operation: string,
    options: OperationOptions,
    start: (settle: Settle, held: HeldBuffers) => number,
    finish: (native: Native) => Result,
    discard?: (native: Native) => void,
  ): Promise<Result> {
    if (!this.#opened) await this.open(options);
    if (this.#closed) throw new DisposedError(operation);
    return this.#jobs.run(operation, options, start, finish, discard);
  }
}
