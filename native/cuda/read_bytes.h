// Device memory -> a sum over all its bytes, at the speed of reading: what the other kernels are measured against.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace collapsar::cuda {

// Adds to *sum, modulo 2^64, the whole little-endian 64-bit words of [data, data + bytes) and the bytes that remain.
cudaError_t launchReadBytes(const void* data, int64_t bytes, unsigned long long* sum, int multiprocessors,
                            cudaStream_t stream);

}  // namespace collapsar::cuda
