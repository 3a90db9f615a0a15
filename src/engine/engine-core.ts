// State that an engine's operations share: its native half, its jobs, its GPU, and whether it is still open.

import { DeviceError, DisposedError } from '../checks/errors.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { checkOptions, type Kind, OPERATION } from '../checks/options.js';
import { EngineDevice, type Placement } from './device/engine-device.js';
import type { EngineInfo } from './engine-info.js';
import { maxBufferBytes } from './memory.js';
import type { NativeAddon, NativeEngine } from './native.js';
import { RunningJobs } from './running-jobs.js';

/** @internal */
export class EngineCore {
  readonly info: EngineInfo;
  readonly native: NativeEngine;
  readonly jobs: RunningJobs;
  readonly device: EngineDevice | undefined;
  #closed: Promise<void> | undefined;

  private constructor(addon: NativeAddon, { fallback, chosen }: Placement, threads: number) {
    this.native = new addon.NativeEngine(threads, maxBufferBytes);
    this.jobs = new RunningJobs(addon);
    this.device = chosen && new EngineDevice(this.native, this.jobs, chosen);
    this.info = Object.freeze({
      device: this.device?.name ?? 'cpu',
      gpu: this.device?.gpu ?? null,
      isa: addon.isa(),
      isaAvailable: Object.freeze(addon.isaAvailable()),
      threads,
      fallback,
    });
  }

  static async open(
    addon: NativeAddon,
    placement: Placement,
    threads: number,
    signal: AbortSignal | undefined,
  ): Promise<EngineCore> {
    let core: EngineCore;
    try {
      core = new EngineCore(addon, placement, threads);
    } catch (error) {
      throw new DeviceError((error as Error).message, { cause: error });
    }
    try {
      await core.jobs.run(
        'openEngine',
        { signal },
        (settle) => core.native.start(settle),
        () => undefined,
      );
      // A GPU that was asked for is opened now, so that its errors are thrown here.
      if (core.device?.takesHostTensors) await core.device.open({ signal });
    } catch (error) {
      await core.dispose();
      throw error;
    }
    return core;
  }

  /** Cancels what runs and ends the threads. */
  dispose(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = new Promise((resolve) => {
        this.device?.close();
        this.native.close(() => resolve());
      });
      this.jobs.dispose();
    }
    return this.#closed;
  }

  /** @throws DisposedError once the engine is disposed */
  expectOpen(operation: string): void {
    if (this.#closed !== undefined) throw new DisposedError(operation);
  }

  /** @throws DisposedError, ArgumentError for an option that is not known, `signal.reason` */
  begin(
    operation: string,
    options: OperationOptions,
    table: Readonly<Record<string, Kind>> = OPERATION,
    argument = 'options',
  ): void {
    this.expectOpen(operation);
    checkOptions(options, table, argument);
    options.signal?.throwIfAborted();
  }

  /** @throws DeviceError if the engine has no GPU */
  gpu(operation: string): EngineDevice {
    if (this.device !== undefined) return this.device;
    const why = this.info.fallback ?? `it was opened with device '${this.info.device}'`;
    throw new DeviceError(`${operation}: this engine has no GPU: ${why}`, { reason: 'no_device' });
  }
}
