// Describes where an engine computes, and with what.
import type { CudaDevice } from './device/cuda-device.js';

/** Where an engine computes, and with what. */
export interface EngineInfo {
  /**
   * Where computations run on tensors that are on the GPU. Those on the host run there, too, if a GPU was asked for by
   * name; under `auto` they run on the CPU, which is where their data is.
   */
  device: 'cpu' | `cuda:${number}`;
  /** The GPU of `device`; null for `cpu`. */
  gpu: CudaDevice | null;
  /** Instruction set of the CPU kernels in use. */
  isa: string;
  /** All instruction sets that this build and this machine can run. */
  isaAvailable: readonly string[];
  threads: number;
  /** Why `auto` did not take a GPU; null if it did, or if the CPU was asked for. */
  fallback: string | null;
}
