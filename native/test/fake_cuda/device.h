// A device of the fake, and what the calls of the ABI share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "cuda/backend.h"

struct CollapsarCudaDevice {
  struct Allocation {
    void* address;
    std::size_t mapped;
    std::int64_t bytes;
    int file;                // of the memory, to be shared through /proc; -1: another process's
    std::string event = {};  // a file that must be there before an operation begins; empty: none
  };
  int index;
  std::map<const void*, Allocation> memory;
  std::int64_t used = 0;
};

namespace fake_cuda {

using Status = CollapsarCudaStatus;
using Error = CollapsarCudaError;

// A line in COLLAPSAR_FAKE_CUDA_TRACE, if that is set.
void trace(const char* call, const CollapsarCudaDevice* device);

__attribute__((format(printf, 3, 4))) Status failure(Error* error, Status status, const char* format, ...);

#define COLLAPSAR_FAKE_TRY(call) \
  if (const Status status_ = (call); status_ != COLLAPSAR_CUDA_OK) return status_

template <typename Struct>
Status checkSize(const Struct* given, Error* error) {
  if (given->size == sizeof(Struct)) return COLLAPSAR_CUDA_OK;
  return failure(error, COLLAPSAR_CUDA_INVALID, "a struct of %u bytes, expected %zu", given->size, sizeof(Struct));
}

bool isCancelled(const CollapsarCudaControl* control);
void report(const CollapsarCudaControl* control, std::int64_t done, std::int64_t total);

// What every call that works on the device does first; and every one that may read memory.
Status enter(const char* call, CollapsarCudaDevice* device, Error* error);
Status begin(const char* call, CollapsarCudaDevice* device, const CollapsarCudaControl* control, Error* error);

// Takes from the device's memory without giving any: `used` goes back by whoever is through with it.
Status reserve(CollapsarCudaDevice* device, std::int64_t bytes, Error* error);

}  // namespace fake_cuda
