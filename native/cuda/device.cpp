#include "device.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "call.h"
#include "failure.h"
#include "portions.h"

using collapsar::cuda::check;
using collapsar::cuda::checkAllocation;
using collapsar::cuda::Failure;
using collapsar::cuda::kKeptBytes;
using collapsar::cuda::kSpaceGranule;
using collapsar::cuda::kStagingBytes;
using collapsar::cuda::Space;

namespace {

constexpr const char* kSpaceNames[] = {"a block of the tensor", "a block of the tensor", "labels of rows", "results",
                                       "partial results",       "sums of tokens",        "a counter"};
static_assert(std::size(kSpaceNames) == static_cast<std::size_t>(Space::Count));

}  // namespace

CollapsarCudaDevice::CollapsarCudaDevice(int index) : index_(index) {
  use();
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index), "asking what the GPU has");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  const cudaError_t made = cudaStreamCreateWithFlags(&inputStream_, cudaStreamNonBlocking);
  if (made != cudaSuccess) {
    cudaStreamDestroy(stream_);
    check(made, "making a stream");
  }
}

CollapsarCudaDevice::~CollapsarCudaDevice() {
  // Whatever fails here fails because the device is lost; there is nobody to tell.
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  cudaStreamSynchronize(inputStream_);
  for (const auto& [base, import] : imports_) {
    for (const cudaEvent_t event : import.awaited) cudaEventDestroy(event);
  }
  for (void* memory : spaces_) {
    if (memory != nullptr) cudaFree(memory);
  }
  for (Staging& staging : staging_) {
    if (staging.copied != nullptr) cudaEventDestroy(staging.copied);
    if (staging.memory != nullptr) cudaFreeHost(staging.memory);
  }
  cudaStreamDestroy(stream_);
  cudaStreamDestroy(inputStream_);
  cudaGetLastError();
}

void CollapsarCudaDevice::use() const { check(cudaSetDevice(index_), "choosing the GPU"); }

void* CollapsarCudaDevice::allocate(std::int64_t bytes, const char* what) {
  return allocateAfter(Trim::All, bytes, what);
}

void* CollapsarCudaDevice::allocateAfter(Trim spared, std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  cudaError_t result = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (result == cudaErrorMemoryAllocation) {
    // Workspace of earlier calls may be what is missing.
    cudaGetLastError();
    trim(spared);
    result = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  }
  checkAllocation(result, bytes, what);
  return memory;
}

void CollapsarCudaDevice::freeSpace(int which) {
  void* const memory = spaces_[which];
  spaces_[which] = nullptr;
  spaceBytes_[which] = 0;
  check(cudaFree(memory), "freeing workspace");
}

void CollapsarCudaDevice::beginCall() { std::fill(std::begin(spaceInUse_), std::end(spaceInUse_), false); }

void* CollapsarCudaDevice::space(Space which, std::int64_t bytes) {
  const int i = static_cast<int>(which);
  spaceInUse_[i] = true;
  if (bytes <= spaceBytes_[i]) return spaces_[i];
  if (spaces_[i] != nullptr) {
    synchronize();
    freeSpace(i);
  }
  const std::int64_t rounded = (bytes + kSpaceGranule - 1) / kSpaceGranule * kSpaceGranule;
  spaces_[i] = allocateAfter(Trim::Unused, rounded, kSpaceNames[i]);
  spaceBytes_[i] = rounded;
  return spaces_[i];
}

void CollapsarCudaDevice::trim(Trim which) {
  bool waited = false;
  for (int i = 0; i < static_cast<int>(Space::Count); i++) {
    if (spaces_[i] == nullptr) continue;
    if (which == Trim::Large && spaceBytes_[i] <= kKeptBytes) continue;
    if (which == Trim::Unused && spaceInUse_[i]) continue;
    if (!waited) synchronize();
    waited = true;
    freeSpace(i);
  }
}

void CollapsarCudaDevice::makeStaging() {
  for (Staging& staging : staging_) {
    if (staging.memory == nullptr) {
      void* memory = nullptr;
      const cudaError_t result = cudaHostAlloc(&memory, kStagingBytes, cudaHostAllocDefault);
      if (result == cudaErrorMemoryAllocation) {  // of the host: what is free on the GPU says nothing
        cudaGetLastError();
        throw Failure{COLLAPSAR_CUDA_FAILED,
                      "no pinned host memory: " + std::to_string(kStagingBytes) +
                          " bytes asked for; free memory of the machine, or raise the container's limit",
                      result};
      }
      check(result, "taking pinned host memory");
      staging.memory = static_cast<char*>(memory);
    }
    if (staging.copied == nullptr) {
      check(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming), "making an event");
    }
  }
}

void CollapsarCudaDevice::uploadFilled(void* to, std::int64_t bytes, std::int64_t granule, cudaStream_t stream,
                                       const std::function<void(char*, std::int64_t, std::int64_t)>& fill) {
  if (bytes == 0) return;
  makeStaging();
  const std::int64_t step = kStagingBytes / granule * granule;
  for (std::int64_t at = 0; at < bytes; at += step) {
    const std::int64_t size = std::min(step, bytes - at);
    Staging& staging = staging_[nextStaging_];
    nextStaging_ ^= 1;
    check(cudaEventSynchronize(staging.copied), "waiting for a copy");
    fill(staging.memory, at, size);
    check(cudaMemcpyAsync(static_cast<char*>(to) + at, staging.memory, static_cast<std::size_t>(size),
                          cudaMemcpyHostToDevice, stream),
          "copying to the GPU");
    check(cudaEventRecord(staging.copied, stream), "copying to the GPU");
  }
}

void CollapsarCudaDevice::upload(void* to, const void* from, std::int64_t bytes, cudaStream_t stream,
                                 collapsar::cuda::Call* call) {
  uploadFilled(to, bytes, 1, stream, [&](char* buffer, std::int64_t at, std::int64_t size) {
    if (call != nullptr) call->stopIfCancelled();
    std::memcpy(buffer, static_cast<const char*>(from) + at, static_cast<std::size_t>(size));
    if (call != nullptr) call->addDone(size);
  });
}

void CollapsarCudaDevice::download(void* to, const void* from, std::int64_t bytes, cudaStream_t stream,
                                   collapsar::cuda::Call* call) {
  if (bytes == 0) return;
  makeStaging();
  // One copy runs while the one before is taken out of its buffer.
  std::int64_t at[2] = {0, 0}, size[2] = {0, 0};
  const auto takeOut = [&](int slot) {
    if (size[slot] == 0) return;
    check(cudaEventSynchronize(staging_[slot].copied), "copying from the GPU");
    std::memcpy(static_cast<char*>(to) + at[slot], staging_[slot].memory, static_cast<std::size_t>(size[slot]));
    if (call != nullptr) call->addDone(size[slot]);
    size[slot] = 0;
  };
  for (std::int64_t begin = 0; begin < bytes; begin += kStagingBytes) {
    if (call != nullptr) call->stopIfCancelled();
    const int slot = nextStaging_;
    nextStaging_ ^= 1;
    if (size[slot] == 0) check(cudaEventSynchronize(staging_[slot].copied), "waiting for a copy");
    takeOut(slot);
    at[slot] = begin;
    size[slot] = std::min(kStagingBytes, bytes - begin);
    check(cudaMemcpyAsync(staging_[slot].memory, static_cast<const char*>(from) + begin,
                          static_cast<std::size_t>(size[slot]), cudaMemcpyDeviceToHost, stream),
          "copying from the GPU");
    check(cudaEventRecord(staging_[slot].copied, stream), "copying from the GPU");
  }
  takeOut(nextStaging_);
  takeOut(nextStaging_ ^ 1);
}

void CollapsarCudaDevice::opened(void* base, cudaEvent_t event) {
  Import& import = imports_[base];
  import.opened++;
  if (event != nullptr) import.awaited.push_back(event);
}

void CollapsarCudaDevice::closed(void* base) {
  const auto found = imports_.find(base);
  if (found == imports_.end() || --found->second.opened > 0) return;
  for (const cudaEvent_t event : found->second.awaited) cudaEventDestroy(event);
  imports_.erase(found);
}

bool CollapsarCudaDevice::awaitsProducer() {
  for (auto& [base, import] : imports_) {
    while (!import.awaited.empty()) {
      const cudaError_t result = cudaEventQuery(import.awaited.back());
      if (result == cudaErrorNotReady) {
        cudaGetLastError();
        return true;
      }
      check(result, "waiting for the producer's event");
      cudaEventDestroy(import.awaited.back());
      import.awaited.pop_back();
    }
  }
  return false;
}

void CollapsarCudaDevice::synchronize() {
  check(cudaStreamSynchronize(inputStream_), "copying to the GPU");
  check(cudaStreamSynchronize(stream_), "running kernels");
}
