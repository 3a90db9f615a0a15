// A CUDA backend, loaded by its path as the addon loads it, and the little that the checks and timings need around it.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cuda/backend.h"

namespace collapsar::test {

inline void require(bool holds, const std::string& problem) {
  if (holds) return;
  std::cerr << "cannot go on: " << problem << "\n";
  std::exit(2);
}

class CudaDevice {
 public:
  CudaDevice(const char* path, int index) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    require(library != nullptr, std::string("the backend does not load: ") + (library == nullptr ? dlerror() : ""));
    const auto entry = reinterpret_cast<CollapsarCudaEntry>(dlsym(library, COLLAPSAR_CUDA_ENTRY));
    require(entry != nullptr, "the backend has no entry");
    require(entry(COLLAPSAR_CUDA_ABI_VERSION + 1) == nullptr, "the backend claims a version that there is not");
    backend_ = entry(COLLAPSAR_CUDA_ABI_VERSION);
    require(backend_ != nullptr && backend_->size == sizeof(CollapsarCudaBackend), "the backend is of another version");
    std::int32_t count = 0;
    expectOk(backend_->device_count(&count, &error));
    info_.size = sizeof info_;
    expectOk(backend_->device_info(index, &info_, &error));
    expectOk(backend_->open(index, &device_, &error));
  }
  ~CudaDevice() { backend_->close(device_); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CollapsarCudaBackend* operator->() const { return backend_; }
  CollapsarCudaDevice* get() const { return device_; }
  const CollapsarCudaDeviceInfo& info() const { return info_; }

  void expectOk(CollapsarCudaStatus status) {
    require(status == COLLAPSAR_CUDA_OK, std::string("status ") + std::to_string(status) + ": " + error.message);
  }

  CollapsarCudaError error{};

 private:
  const CollapsarCudaBackend* backend_ = nullptr;
  CollapsarCudaDevice* device_ = nullptr;
  CollapsarCudaDeviceInfo info_{};
};

// Memory of the device, freed at the end.
class DeviceMemory {
 public:
  DeviceMemory(CudaDevice& device, std::int64_t bytes) : device_(device) {
    device.expectOk(device->alloc(device.get(), bytes, &pointer_, &device.error));
  }
  DeviceMemory(CudaDevice& device, const void* from, std::int64_t bytes) : DeviceMemory(device, bytes) {
    device.expectOk(device->upload(device.get(), pointer_, from, bytes, nullptr, &device.error));
  }
  ~DeviceMemory() { device_.expectOk(device_->free(device_.get(), pointer_, &device_.error)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(pointer_);
  }
  template <class T>
  std::vector<T> read(std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    device_.expectOk(device_->download(device_.get(), values.data(), pointer_,
                                       count * static_cast<std::int64_t>(sizeof(T)), nullptr, &device_.error));
    return values;
  }

 private:
  CudaDevice& device_;
  void* pointer_ = nullptr;
};

}  // namespace collapsar::test
