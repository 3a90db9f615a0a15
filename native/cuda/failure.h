// What went wrong, on its way to the C ABI: thrown by the backend's functions, caught where they meet the table.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "backend.h"

namespace collapsar::cuda {

struct Failure {
  CollapsarCudaStatus status;
  std::string message;
  cudaError_t cause = cudaSuccess;             // the driver's error, if it is its
  std::int64_t askedBytes = 0, freeBytes = 0;  // where memory was not enough
};

// Throws unless `result` is cudaSuccess. `doing` completes "CUDA failed while ...".
void check(cudaError_t result, const char* doing);

// An allocation of `bytes` that came to `result`.
void checkAllocation(cudaError_t result, std::int64_t bytes, const char* what);

[[noreturn]] void invalid(const std::string& message);

// What a CUDA error means to the caller.
CollapsarCudaStatus statusOf(cudaError_t error);

// Whether there is a driver and it is new enough; says what to do if not.
void checkDriver();

}  // namespace collapsar::cuda
