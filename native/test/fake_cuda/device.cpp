#include "device.h"

#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <thread>

#include "settings.h"

namespace fake_cuda {

void trace(const char* call, const CollapsarCudaDevice* device) {
  const std::string path = setting("TRACE");
  if (path.empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (std::FILE* const file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s %d\n", call, device == nullptr ? -1 : device->index);
    std::fclose(file);
  }
}

Status failure(Error* error, Status status, const char* format, ...) {
  *error = {};
  error->code = status;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

bool isCancelled(const CollapsarCudaControl* control) {
  return control != nullptr && control->cancelled != nullptr && *control->cancelled != 0;
}

void report(const CollapsarCudaControl* control, std::int64_t done, std::int64_t total) {
  if (control != nullptr && control->progress != nullptr) control->progress(control->progress_context, done, total);
}

namespace {

Status expectAlive(Error* error) {
  if (!fails("lost")) return COLLAPSAR_CUDA_OK;
  return failure(error, COLLAPSAR_CUDA_DEVICE_LOST, "the GPU is lost; restart the process");
}

}  // namespace

Status enter(const char* call, CollapsarCudaDevice* device, Error* error) {
  trace(call, device);
  return expectAlive(error);
}

Status begin(const char* call, CollapsarCudaDevice* device, const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(enter(call, device, error));
  for (auto& [address, allocation] : device->memory) {
    while (!allocation.event.empty() && access(allocation.event.c_str(), F_OK) != 0) {
      if (isCancelled(control)) return failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    allocation.event.clear();
  }
  return COLLAPSAR_CUDA_OK;
}

Status reserve(CollapsarCudaDevice* device, std::int64_t bytes, Error* error) {
  const std::int64_t free = deviceBytes() - device->used;
  if (bytes > free) {
    failure(error, COLLAPSAR_CUDA_OUT_OF_MEMORY, "out of memory: %lld bytes asked for, %lld free",
            static_cast<long long>(bytes), static_cast<long long>(free));
    error->asked_bytes = bytes;
    error->free_bytes = free;
    return COLLAPSAR_CUDA_OUT_OF_MEMORY;
  }
  device->used += bytes;
  return COLLAPSAR_CUDA_OK;
}

}  // namespace fake_cuda
