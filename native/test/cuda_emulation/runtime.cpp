// The runtime library but for its streams and its memory: the devices, and what the settings let fail.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <chrono>
#include <map>
#include <thread>

#include "cuda_runtime.h"
#include "settings.h"

using emulation::fails;
using emulation::settings;

namespace {

// Not thread_local: all such memory of this library is shared memory of kernels.
std::map<std::thread::id, int> chosenDevices;

bool exists(int index) { return index >= 0 && index < settings().devices; }

}  // namespace

int emulatedDevice() {
  const EmulationLock lock;
  return chosenDevices[std::this_thread::get_id()];
}

const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated runtime"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = fails("no_driver") ? 0 : fails("driver_too_old") ? 11000 : 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  if (fails("crash")) raise(SIGSEGV);
  if (fails("exit")) _Exit(0);
  if (fails("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fails("no_device")) return cudaErrorNoDevice;
  *count = settings().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (!exists(index)) return cudaErrorInvalidDevice;
  *properties = {"emulated GPU", settings().bytes, 9, 0, kEmulatedMultiprocessors};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int index) {
  if (!exists(index)) return cudaErrorInvalidDevice;
  snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x1b + index);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
  if (!exists(index)) return cudaErrorInvalidDevice;
  *value = which == cudaDevAttrMultiProcessorCount      ? kEmulatedMultiprocessors
           : which == cudaDevAttrComputeCapabilityMajor ? 9
                                                        : 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  if (!exists(index)) return cudaErrorInvalidDevice;
  if (fails("busy")) return cudaErrorDevicesUnavailable;
  if (fails("lost")) return cudaErrorLaunchFailure;
  const EmulationLock lock;
  chosenDevices[std::this_thread::get_id()] = index;
  return cudaSuccess;
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t) {
  *handle = {};
  return cudaSuccess;
}
