#include "devices.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "settings.h"

namespace fake_cuda {

Status deviceCount(std::int32_t* count, Error* error) {
  if (fails("crash")) std::raise(SIGSEGV);
  if (fails("exit")) std::_Exit(0);
  if (fails("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fails("no_driver")) return failure(error, COLLAPSAR_CUDA_NO_DRIVER, "there is no NVIDIA driver; install one");
  if (fails("driver_too_old")) {
    return failure(error, COLLAPSAR_CUDA_DRIVER_TOO_OLD, "the driver runs CUDA 11.0, 13.0 is needed; update it");
  }
  if (fails("no_device")) return failure(error, COLLAPSAR_CUDA_NO_DEVICE, "the driver shows no GPU");
  *count = static_cast<std::int32_t>(number("DEVICES", 2));
  return COLLAPSAR_CUDA_OK;
}

Status deviceInfo(std::int32_t index, CollapsarCudaDeviceInfo* info, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(info, error));
  *info = {};
  info->size = sizeof *info;
  info->index = index;
  std::snprintf(info->name, sizeof info->name, "Fake GPU %d", index);
  std::snprintf(info->pci_id, sizeof info->pci_id, "0000:%02x:00.0", index);
  info->compute_major = 9;
  info->multiprocessors = 132;
  info->supported = 1;
  info->total_bytes = deviceBytes();
  info->free_bytes = -1;
  info->driver_version = info->runtime_version = 13000;
  return COLLAPSAR_CUDA_OK;
}

Status openDevice(std::int32_t index, CollapsarCudaDevice** device, Error* error) {
  if (fails("open")) return failure(error, COLLAPSAR_CUDA_FAILED, "all CUDA-capable devices are busy");
  if (index < 0 || index >= number("DEVICES", 2)) return failure(error, COLLAPSAR_CUDA_BAD_DEVICE, "no such device");
  *device = new CollapsarCudaDevice{};
  (*device)->index = index;
  trace("open", *device);
  return COLLAPSAR_CUDA_OK;
}

void closeDevice(CollapsarCudaDevice* device) {
  if (device == nullptr) return;
  trace(device->memory.empty() ? "close" : "close-with-memory-left", device);
  delete device;
}

}  // namespace fake_cuda
