// The runtime library but for its streams: one device of 4 multiprocessors and 1 GB. Its memory is host memory,
// poisoned when it is allocated and when it is freed. It knows no other process.
#include <stdlib.h>

#include <map>

#include "cuda_runtime.h"

namespace {

constexpr size_t kTotalBytes = size_t{1} << 30;
constexpr unsigned char kPoison = 0xcb;

std::map<void*, size_t>& allocations() {
  static std::map<void*, size_t> all;
  return all;
}

size_t taken() {
  size_t sum = 0;
  for (const auto& [pointer, bytes] : allocations()) sum += bytes;
  return sum;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated runtime"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", kTotalBytes, 9, 0, 4};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int) {
  strncpy(text, "0000:1B:00.0", static_cast<size_t>(size));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrMultiProcessorCount ? 4 : which == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = kTotalBytes;
  *free = kTotalBytes - taken();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (bytes > kTotalBytes || bytes > kTotalBytes - taken()) return cudaErrorMemoryAllocation;
  // Not a byte more, so that AddressSanitizer sees what is read behind them.
  if (posix_memalign(pointer, 256, bytes) != 0) return cudaErrorMemoryAllocation;
  memset(*pointer, kPoison, bytes);
  allocations()[*pointer] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  const auto allocation = allocations().find(pointer);
  if (allocation == allocations().end()) return cudaErrorInvalidValue;
  memset(pointer, kPoison, allocation->second);
  allocations().erase(allocation);
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = malloc(bytes);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  memset(*pointer, kPoison, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void*) {
  *handle = {};
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { return cudaErrorInvalidResourceHandle; }
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaErrorInvalidValue; }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t) {
  *handle = {};
  return cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return cudaErrorInvalidResourceHandle; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *found = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
