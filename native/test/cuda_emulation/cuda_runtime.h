// As much of CUDA as native/cuda uses, on the host: the tests compile the kernels and the backend with a C++ compiler
// and run them where there is no GPU. Every CUDA thread is a fiber; __syncthreads and the warp's exchanges switch to
// the next one. It shows wrong indices and results, what is read before it is written or waited for, and under
// ThreadSanitizer races within a block, under AddressSanitizer wrong accesses; no speed.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <mutex>

// --- the language ----------------------------------------------------------------------------------------------------
#define __global__ [[maybe_unused]]
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// All that is thread_local here, so that emulateKernel finds it and each block finds nothing of the block before.
#define __shared__ static thread_local

struct EmulatedIndex {
  unsigned x;
};
extern EmulatedIndex threadIdx, blockIdx, gridDim;

void emulateSyncThreads();
void emulateSyncWarp();
uint32_t emulateExchange(uint32_t value, unsigned lane);  // the value of another lane of the warp
void emulateKernel(unsigned blocks, unsigned threads, const std::function<void()>& thread);
void emulateLaunch(unsigned blocks, unsigned threads, struct EmulatedStream* stream, std::function<void()> thread);

inline void __syncthreads() { emulateSyncThreads(); }
inline uint32_t __shfl_xor_sync(unsigned, uint32_t value, int laneMask) {
  return emulateExchange(value, threadIdx.x % 32 ^ static_cast<unsigned>(laneMask));
}
inline unsigned __ballot_sync(unsigned, bool holds) {
  unsigned bits = holds ? 1u << threadIdx.x % 32 : 0u;
  for (int step = 16; step > 0; step /= 2) bits |= __shfl_xor_sync(0, bits, step);
  return bits;
}
inline int __shfl_sync(unsigned, int value, int lane) {
  return static_cast<int>(emulateExchange(static_cast<uint32_t>(value), static_cast<unsigned>(lane)));
}
inline uint32_t __reduce_max_sync(unsigned, uint32_t value) {
  for (int step = 16; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(0, value, step);
    if (other > value) value = other;
  }
  return value;
}
inline int __reduce_min_sync(unsigned, int value) {
  for (int step = 16; step > 0; step /= 2) {
    const int other = static_cast<int>(__shfl_xor_sync(0, static_cast<uint32_t>(value), step));
    if (other < value) value = other;
  }
  return value;
}
inline int __reduce_add_sync(unsigned, int value) {
  for (int step = 16; step > 0; step /= 2) {
    value += static_cast<int>(__shfl_xor_sync(0, static_cast<uint32_t>(value), step));
  }
  return value;
}
inline void __syncwarp(unsigned = 0xffffffffu) { emulateSyncWarp(); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value) {
  unsigned long long old = __atomic_load_n(at, __ATOMIC_RELAXED);
  if (value < old) __atomic_store_n(at, value, __ATOMIC_RELAXED);
  return old;
}
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

#define COLLAPSAR_LAUNCH(kernel, blocks, threads, stream, ...) \
  emulateLaunch((blocks), (threads), (stream), [=] { kernel(__VA_ARGS__); })

// --- the runtime library ---------------------------------------------------------------------------------------------
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorMapBufferObjectFailed = 205,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorContextIsDestroyed = 709,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotReady = 600,
  cudaErrorSystemNotReady = 802,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorCompatNotSupportedOnDevice = 804
};
typedef struct EmulatedStream* cudaStream_t;
typedef struct EmulatedEvent* cudaEvent_t;
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4,
                   cudaHostAllocDefault = 0, cudaIpcMemLazyEnablePeerAccess = 1;
constexpr unsigned long long cudaEnableDefault = 0;

// The devices' own; and what stands in memory that nothing was written to.
constexpr int kEmulatedMultiprocessors = 2;
constexpr unsigned char kPoison = 0xcb;

// The emulated devices do one thing at a time, whichever thread asks for it.
struct EmulationLock {
  EmulationLock() { mutex().lock(); }
  ~EmulationLock() { mutex().unlock(); }
  EmulationLock(const EmulationLock&) = delete;
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex one;
    return one;
  }
};

// The device that this thread has set.
int emulatedDevice();
// Whether it is device memory, of this process or another, that the pointer points to.
bool emulateHoldsMemory(const void* pointer);

const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index);
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int index);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer);
cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* pointer);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int, size_t) {
  *blocks = 5;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found);
