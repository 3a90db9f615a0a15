#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "settings.h"

namespace fake_cuda {

namespace {

using Allocation = CollapsarCudaDevice::Allocation;

// What stands in a handle's 64 bytes.
struct Handle {
  char magic[16];
  std::int64_t process, file, bytes;
};
constexpr char kMagic[16] = "collapsar fake";

void release(CollapsarCudaDevice* device, const Allocation& allocation) {
  munmap(allocation.address, allocation.mapped);
  if (allocation.file < 0) return;
  close(allocation.file);
  device->used -= allocation.bytes;
}

// In pieces, so that a long copy can be cancelled.
Status copy(void* to, const void* from, std::int64_t bytes, const CollapsarCudaControl* control, Error* error) {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t at = 0; at < bytes; at += kPiece) {
    if (isCancelled(control)) return failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
    const std::int64_t piece = std::min(kPiece, bytes - at);
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, static_cast<std::size_t>(piece));
    report(control, at + piece, bytes);
  }
  return COLLAPSAR_CUDA_OK;
}

}  // namespace

Status allocate(CollapsarCudaDevice* device, std::int64_t bytes, void** pointer, Error* error) {
  COLLAPSAR_FAKE_TRY(enter("alloc", device, error));
  *pointer = nullptr;
  if (bytes == 0) return COLLAPSAR_CUDA_OK;
  COLLAPSAR_FAKE_TRY(reserve(device, bytes, error));
  const int file = memfd_create("collapsar-fake-cuda", MFD_CLOEXEC);
  void* address = MAP_FAILED;
  if (file >= 0 && ftruncate(file, bytes) == 0) {
    address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (address == MAP_FAILED) return failure(error, COLLAPSAR_CUDA_FAILED, "no host memory for the fake device");
  // Nobody may rely on zeros.
  std::memset(address, 0xa5, static_cast<std::size_t>(bytes));
  device->memory.emplace(address, Allocation{address, static_cast<std::size_t>(bytes), bytes, file});
  *pointer = address;
  return COLLAPSAR_CUDA_OK;
}

Status deallocate(CollapsarCudaDevice* device, void* pointer, Error* error) {
  trace("free", device);
  if (pointer == nullptr) return COLLAPSAR_CUDA_OK;
  const auto entry = device->memory.find(pointer);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "freed what is not allocated");
  release(device, entry->second);
  device->memory.erase(entry);
  return COLLAPSAR_CUDA_OK;
}

Status upload(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
              const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("upload", device, control, error));
  return copy(to, from, bytes, control, error);
}

Status download(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
                const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("download", device, control, error));
  return copy(to, from, bytes, control, error);
}

Status memoryInfo(CollapsarCudaDevice* device, std::int64_t* free, std::int64_t* total, Error* error) {
  COLLAPSAR_FAKE_TRY(enter("memory_info", device, error));
  *total = deviceBytes();
  *free = *total - device->used;
  return COLLAPSAR_CUDA_OK;
}

Status ipcImport(CollapsarCudaDevice* device, CollapsarCudaIpcImport* import, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(import, error));
  COLLAPSAR_FAKE_TRY(enter("ipc_import", device, error));
  Handle handle;
  std::memcpy(&handle, import->handle, sizeof handle);
  const bool ours = std::memcmp(handle.magic, kMagic, sizeof kMagic) == 0;
  if (!ours || handle.process == getpid()) {
    return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "%s",
                   ours ? "the handle is of this very process" : "no handle of the fake backend");
  }
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "the process that made the handle has ended");
  struct stat status {};
  fstat(file, &status);
  if (import->offset_bytes + import->bytes > status.st_size) {
    close(file);
    return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "the storage ends after the allocation");
  }
  const std::size_t mapped = static_cast<std::size_t>(status.st_size);
  void* const base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (base == MAP_FAILED) return failure(error, COLLAPSAR_CUDA_FAILED, "mmap");
  Allocation imported{base, mapped, import->bytes, -1};
  if (import->event_handle != nullptr) {
    const char* const path = static_cast<const char*>(import->event_handle);
    imported.event.assign(path, strnlen(path, COLLAPSAR_CUDA_HANDLE_BYTES));
  }
  device->memory.emplace(base, imported);
  import->base = base;
  import->pointer = static_cast<char*>(base) + import->offset_bytes;
  return COLLAPSAR_CUDA_OK;
}

Status ipcClose(CollapsarCudaDevice* device, void* base, Error* error) {
  trace("ipc_close", device);
  const auto entry = device->memory.find(base);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "closed what is not open");
  release(device, entry->second);
  device->memory.erase(entry);
  return COLLAPSAR_CUDA_OK;
}

Status ipcExport(CollapsarCudaDevice* device, CollapsarCudaIpcExport* out, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  const auto entry = device->memory.find(out->pointer);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "not from alloc()");
  Handle handle{};
  std::memcpy(handle.magic, kMagic, sizeof kMagic);
  handle.process = getpid();
  handle.file = entry->second.file;
  handle.bytes = entry->second.bytes;
  std::memcpy(out->handle, &handle, sizeof handle);
  out->offset_bytes = 0;
  return COLLAPSAR_CUDA_OK;
}

void ipcExportEnd(CollapsarCudaDevice*, void*) {}

}  // namespace fake_cuda
