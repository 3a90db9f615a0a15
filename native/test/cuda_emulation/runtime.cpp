// The runtime library: device memory is host memory, poisoned when it is allocated; everything is done at once. One
// device of 4 multiprocessors and 1 GB. It knows no other process.
#include <stdlib.h>

#include <chrono>
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

struct EmulatedStream {
  int unused;
};
struct EmulatedEvent {
  std::chrono::steady_clock::time_point recorded;
};

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
  if (allocations().erase(pointer) == 0) return cudaErrorInvalidValue;
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream{};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new EmulatedEvent{};
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded - begin->recorded).count();
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
