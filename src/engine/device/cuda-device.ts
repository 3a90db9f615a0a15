// A GPU, as the engine describes it.

/** One GPU, as the CUDA runtime numbers and describes it. */
export interface CudaDevice {
  readonly index: number;
  readonly name: string;
  /** Such as "9.0". */
  readonly computeCapability: string;
  /** Whether this build has kernels for it. */
  readonly supported: boolean;
  readonly totalBytes: number;
  readonly multiprocessors: number;
  /** Such as "0000:3b:00.0". */
  readonly pciId: string;
}
