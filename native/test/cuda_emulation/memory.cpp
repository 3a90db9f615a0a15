// The devices' memory: host memory of this process, poisoned when it is allocated and when it is freed. Each allocation
// is a file without a name, which another process can map: a handle says whose it is.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

#include "cuda_runtime.h"
#include "settings.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#endif

namespace {

constexpr char kMagic[8] = "emulate";

struct Allocation {
  size_t bytes = 0, mapped = 0;
  int file = -1, device = 0;
};

struct Import {
  ino_t file = 0;  // the number of its file, which no other has
  size_t mapped = 0;
  int opened = 0;
};

struct Handle {
  char magic[8];
  int process, file;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

using Allocations = std::map<char*, Allocation>;
Allocations& allocations() {
  static Allocations all;
  return all;
}

using Imports = std::map<char*, Import>;
Imports& imports() {
  static Imports all;
  return all;
}

// Of the thread's device.
size_t freeBytes() {
  size_t taken = 0;
  for (const auto& [base, allocation] : allocations()) {
    if (allocation.device == emulatedDevice()) taken += allocation.bytes;
  }
  const size_t all = emulation::settings().bytes;
  return all - std::min(all, taken);
}

size_t pageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// With a page behind it that cannot be read.
void* mapFile(int file, size_t bytes) {
  void* const all = mmap(nullptr, bytes + pageBytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return all;
  void* const base = mmap(all, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  if (base == MAP_FAILED) munmap(all, bytes + pageBytes());
  return base;
}
void unmap(void* base, size_t bytes) { munmap(base, bytes + pageBytes()); }

// The allocation that the pointer lies in.
Allocations::iterator allocationOf(const void* pointer) {
  const char* const at = static_cast<const char*>(pointer);
  auto next = allocations().upper_bound(const_cast<char*>(at));
  if (next == allocations().begin()) return allocations().end();
  --next;
  return at < next->first + next->second.bytes ? next : allocations().end();
}

// cuMemGetAddressRange, of the driver: 0, or 1 for an invalid value.
int addressRange(unsigned long long* base, size_t* bytes, unsigned long long pointer) {
  const EmulationLock lock;
  char* const at = reinterpret_cast<char*>(pointer);
  if (const auto own = allocationOf(at); own != allocations().end()) {
    *base = reinterpret_cast<unsigned long long>(own->first);
    *bytes = own->second.bytes;
    return 0;
  }
  const auto import = imports().find(at);
  if (import == imports().end()) return 1;
  *base = pointer;
  *bytes = import->second.mapped;
  return 0;
}

}  // namespace

bool emulateHoldsMemory(const void* pointer) {
  const EmulationLock lock;
  if (allocationOf(pointer) != allocations().end()) return true;
  return std::any_of(imports().begin(), imports().end(), [&](const auto& import) {
    return pointer >= import.first && pointer < import.first + import.second.mapped;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const EmulationLock lock;
  *total = emulation::settings().bytes;
  *free = freeBytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const EmulationLock lock;
  if (bytes > freeBytes()) return cudaErrorMemoryAllocation;
  const size_t mapped = (bytes + pageBytes() - 1) / pageBytes() * pageBytes();
  const int file = memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (file < 0) return cudaErrorMemoryAllocation;
  void* const base = ftruncate(file, static_cast<off_t>(mapped)) == 0 ? mapFile(file, mapped) : MAP_FAILED;
  if (base == MAP_FAILED) {
    close(file);
    return cudaErrorMemoryAllocation;
  }
  memset(base, kPoison, mapped);
  // AddressSanitizer shall see what is read behind them.
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(base) + bytes, mapped - bytes);
  allocations()[static_cast<char*>(base)] = {bytes, mapped, file, emulatedDevice()};
  *pointer = base;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  const EmulationLock lock;
  const auto found = allocations().find(static_cast<char*>(pointer));
  if (found == allocations().end()) return cudaErrorInvalidValue;
  const auto [bytes, mapped, file, device] = found->second;
  ASAN_UNPOISON_MEMORY_REGION(pointer, mapped);
  memset(pointer, kPoison, mapped);
  unmap(pointer, mapped);
  close(file);
  allocations().erase(found);
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

// The handle is that of the whole allocation, as CUDA's is.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  const EmulationLock lock;
  const auto found = allocationOf(pointer);
  if (found == allocations().end()) return cudaErrorInvalidValue;
  Handle made{{}, getpid(), found->second.file};
  memcpy(made.magic, kMagic, sizeof kMagic);
  *handle = {};
  memcpy(handle, &made, sizeof made);
  return cudaSuccess;
}

// Opened a second time it is the same memory, and is closed twice.
cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned) {
  const EmulationLock lock;
  Handle made;
  memcpy(&made, &handle, sizeof made);
  if (memcmp(made.magic, kMagic, sizeof kMagic) != 0) return cudaErrorInvalidValue;
  if (made.process == getpid()) return cudaErrorInvalidValue;
  const std::string path = "/proc/" + std::to_string(made.process) + "/fd/" + std::to_string(made.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorMapBufferObjectFailed;
  struct stat status {};
  fstat(file, &status);
  const size_t mapped = static_cast<size_t>(status.st_size);
  const auto known = std::find_if(imports().begin(), imports().end(),
                                  [&](const auto& import) { return import.second.file == status.st_ino; });
  void* const base = known != imports().end() ? known->first : mapFile(file, mapped);
  close(file);
  if (base == MAP_FAILED) return cudaErrorMapBufferObjectFailed;
  Import& import = imports()[static_cast<char*>(base)];
  import = {status.st_ino, mapped, import.opened + 1};
  *pointer = base;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  const EmulationLock lock;
  const auto found = imports().find(static_cast<char*>(pointer));
  if (found == imports().end()) return cudaErrorInvalidValue;
  if (--found->second.opened > 0) return cudaSuccess;
  unmap(pointer, found->second.mapped);
  imports().erase(found);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = strcmp(name, "cuMemGetAddressRange") == 0;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (known) *entry = reinterpret_cast<void*>(addressRange);
  return cudaSuccess;
}
