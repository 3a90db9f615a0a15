// The C ABI's table: each entry runs an operation and turns what it throws into a status.
#include "backend.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "argument_checks.h"
#include "call.h"
#include "operations.h"

namespace collapsar::cuda {

namespace {

#if !defined(COLLAPSAR_CUDA_BUILD)
#define COLLAPSAR_CUDA_BUILD "CUDA"
#endif

// The oldest that there are kernels for, as major * 10 + minor.
constexpr int kOldestCapability = 80;

template <std::size_t kSize>
void copyText(char (&to)[kSize], const std::string& text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, kSize - length);
}

CollapsarCudaStatus report(CollapsarCudaError* error, const Failure& failure) {
  error->code = failure.status;
  error->cuda_error = static_cast<std::int32_t>(failure.cause);
  error->asked_bytes = failure.askedBytes;
  error->free_bytes = failure.freeBytes;
  copyText(error->message, failure.message);
  return failure.status;
}

template <class Work>
CollapsarCudaStatus guarded(CollapsarCudaError* error, Work work) {
  try {
    work();
    return COLLAPSAR_CUDA_OK;
  } catch (const Failure& failure) {
    return report(error, failure);
  } catch (const std::bad_alloc&) {
    return report(error, {COLLAPSAR_CUDA_FAILED, "out of host memory in the CUDA backend"});
  } catch (const std::exception& other) {
    return report(error, {COLLAPSAR_CUDA_FAILED, std::string("in the CUDA backend: ") + other.what()});
  }
}

int countDevices() {
  checkDriver();
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count == 0) check(cudaErrorNoDevice, "counting GPUs");
  check(result, "counting GPUs");
  return count;
}

void expectDevice(std::int32_t index, int count) {
  if (index >= 0 && index < count) return;
  throw Failure{COLLAPSAR_CUDA_BAD_DEVICE, "there is no GPU number " + std::to_string(index) + "; there " +
                                               (count == 1 ? "is 1" : "are " + std::to_string(count)) +
                                               ", counted from 0"};
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "asking what the GPU is");
  return value;
}

int capability(int index) {
  return attribute(cudaDevAttrComputeCapabilityMajor, index) * 10 + attribute(cudaDevAttrComputeCapabilityMinor, index);
}

CollapsarCudaStatus deviceCount(std::int32_t* count, CollapsarCudaError* error) {
  *count = 0;
  return guarded(error, [&] { *count = countDevices(); });
}

CollapsarCudaStatus deviceInfo(std::int32_t index, CollapsarCudaDeviceInfo* info, CollapsarCudaError* error) {
  return guarded(error, [&] {
    expectVersion(*info, "info");
    expectDevice(index, countDevices());
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "asking what the GPU is");
    info->index = index;
    copyText(info->name, properties.name);
    char pci[COLLAPSAR_CUDA_PCI_BYTES] = {};
    check(cudaDeviceGetPCIBusId(pci, sizeof pci, index), "asking where the GPU is");
    std::transform(pci, pci + sizeof pci, pci,
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    copyText(info->pci_id, pci);
    info->compute_major = properties.major;
    info->compute_minor = properties.minor;
    info->multiprocessors = properties.multiProcessorCount;
    info->supported = properties.major * 10 + properties.minor >= kOldestCapability ? 1 : 0;
    info->total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    info->free_bytes = -1;
    check(cudaDriverGetVersion(&info->driver_version), "asking for the driver's version");
    check(cudaRuntimeGetVersion(&info->runtime_version), "asking for the runtime's version");
  });
}

CollapsarCudaStatus openDevice(std::int32_t index, CollapsarCudaDevice** device, CollapsarCudaError* error) {
  *device = nullptr;
  return guarded(error, [&] {
    expectDevice(index, countDevices());
    if (const int has = capability(index); has < kOldestCapability) {
      throw Failure{COLLAPSAR_CUDA_BAD_DEVICE, "GPU " + std::to_string(index) + " has compute capability " +
                                                   std::to_string(has / 10) + "." + std::to_string(has % 10) +
                                                   "; there are kernels for 8.0 and newer: use another GPU or the CPU"};
    }
    *device = std::make_unique<CollapsarCudaDevice>(index).release();
  });
}

void closeDevice(CollapsarCudaDevice* device) { delete device; }

CollapsarCudaStatus memoryInfo(CollapsarCudaDevice* device, std::int64_t* freeBytes, std::int64_t* totalBytes,
                               CollapsarCudaError* error) {
  return guarded(error, [&] {
    device->use();
    std::size_t isFree = 0, total = 0;
    check(cudaMemGetInfo(&isFree, &total), "asking how much memory is free");
    *freeBytes = static_cast<std::int64_t>(isFree);
    *totalBytes = static_cast<std::int64_t>(total);
  });
}

CollapsarCudaStatus allocateMemory(CollapsarCudaDevice* device, std::int64_t bytes, void** pointer,
                                   CollapsarCudaError* error) {
  *pointer = nullptr;
  return guarded(error, [&] {
    expect(bytes >= 0, "bytes: negative");
    device->use();
    if (bytes > 0) *pointer = device->allocate(bytes, "a tensor");
  });
}

CollapsarCudaStatus freeMemory(CollapsarCudaDevice* device, void* pointer, CollapsarCudaError* error) {
  return guarded(error, [&] {
    if (pointer == nullptr) return;
    device->use();
    check(cudaFree(pointer), "freeing memory");
  });
}

CollapsarCudaStatus uploadMemory(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
                                 const CollapsarCudaControl* control, CollapsarCudaError* error) {
  return guarded(error, [&] {
    expect(bytes >= 0, "bytes: negative");
    Call call(*device, control, bytes);
    device->upload(to, from, bytes, device->stream(), &call);
    call.finish();
  });
}

CollapsarCudaStatus downloadMemory(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
                                   const CollapsarCudaControl* control, CollapsarCudaError* error) {
  return guarded(error, [&] {
    expect(bytes >= 0, "bytes: negative");
    Call call(*device, control, bytes);
    device->download(to, from, bytes, device->stream(), &call);
    call.finish();
  });
}

CollapsarCudaStatus ipcImport(CollapsarCudaDevice* device, CollapsarCudaIpcImport* import, CollapsarCudaError* error) {
  return guarded(error, [&] { importMemory(*device, *import); });
}

CollapsarCudaStatus ipcClose(CollapsarCudaDevice* device, void* base, CollapsarCudaError* error) {
  return guarded(error, [&] { closeMemory(*device, base); });
}

CollapsarCudaStatus ipcExport(CollapsarCudaDevice* device, CollapsarCudaIpcExport* out, CollapsarCudaError* error) {
  return guarded(error, [&] { exportMemory(*device, *out); });
}

void ipcExportEnd(CollapsarCudaDevice* device, void* event) {
  CollapsarCudaError ignored;
  guarded(&ignored, [&] { endExport(*device, event); });
}

CollapsarCudaStatus logitStatsOf(CollapsarCudaDevice* device, const CollapsarCudaLogits* logits,
                                 const CollapsarCudaLogitStats* out, const CollapsarCudaControl* control,
                                 CollapsarCudaError* error) {
  return guarded(error, [&] { logitStats(*device, *logits, *out, control); });
}

CollapsarCudaStatus scoreStatsOf(CollapsarCudaDevice* device, const CollapsarCudaScores* scores,
                                 const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                                 const CollapsarCudaControl* control, CollapsarCudaError* error) {
  return guarded(error, [&] { scoreStats(*device, *scores, *labels, *out, control); });
}

CollapsarCudaStatus sumTokensOf(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                                CollapsarCudaTokenSums* out, const CollapsarCudaControl* control,
                                CollapsarCudaError* error) {
  return guarded(error, [&] { sumTokens(*device, *tokens, *out, control); });
}

CollapsarCudaStatus tokensToRowStatsOf(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                                       const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                                       CollapsarCudaTokenSums* sums, const CollapsarCudaControl* control,
                                       CollapsarCudaError* error) {
  return guarded(error, [&] { tokensToRowStats(*device, *tokens, *labels, *out, sums, control); });
}

CollapsarCudaStatus readBytesOf(CollapsarCudaDevice* device, const void* data, std::int64_t bytes, std::uint64_t* sum,
                                const CollapsarCudaControl* control, CollapsarCudaError* error) {
  return guarded(error, [&] { *sum = readBytes(*device, data, bytes, control); });
}

constexpr CollapsarCudaBackend kBackend = {
    sizeof(CollapsarCudaBackend),
    COLLAPSAR_CUDA_ABI_VERSION,
    COLLAPSAR_CUDA_BUILD,
    deviceCount,
    deviceInfo,
    openDevice,
    closeDevice,
    memoryInfo,
    allocateMemory,
    freeMemory,
    uploadMemory,
    downloadMemory,
    ipcImport,
    ipcClose,
    ipcExport,
    ipcExportEnd,
    logitStatsOf,
    scoreStatsOf,
    sumTokensOf,
    tokensToRowStatsOf,
    readBytesOf,
};

}  // namespace

}  // namespace collapsar::cuda

const CollapsarCudaBackend* collapsar_cuda_backend(std::uint32_t version) {
  return version == COLLAPSAR_CUDA_ABI_VERSION ? &collapsar::cuda::kBackend : nullptr;
}
