// Memory of other processes, by CUDA's IPC handles: a trainer's tensors, read where they lie.
#include <cstring>

#include "argument_checks.h"
#include "operations.h"

namespace collapsar::cuda {

namespace {

// torch puts two bytes before the handle: a version, and how the memory was made.
constexpr std::uint32_t kTorchPrefix = 2;
constexpr char kTorchMalloc = 'c';

static_assert(sizeof(cudaIpcMemHandle_t) == COLLAPSAR_CUDA_HANDLE_BYTES);
static_assert(sizeof(cudaIpcEventHandle_t) == COLLAPSAR_CUDA_HANDLE_BYTES);

[[noreturn]] void badHandle(const std::string& message, cudaError_t cause = cudaSuccess) {
  throw Failure{COLLAPSAR_CUDA_BAD_HANDLE, message, cause};
}

cudaIpcMemHandle_t memoryHandle(const CollapsarCudaIpcImport& import) {
  const char* bytes = static_cast<const char*>(import.handle);
  if (import.handle_bytes == COLLAPSAR_CUDA_HANDLE_BYTES + kTorchPrefix) {
    if (bytes[1] != kTorchMalloc) {
      badHandle(
          "the handle is of memory that torch took as an expandable segment, which no handle can pass on: start the "
          "producer without expandable_segments in PYTORCH_CUDA_ALLOC_CONF");
    }
    bytes += kTorchPrefix;
  } else if (import.handle_bytes != COLLAPSAR_CUDA_HANDLE_BYTES) {
    badHandle("the handle has " + std::to_string(import.handle_bytes) +
              " bytes, expected 64 (cudaIpcMemHandle_t) or 66 (as torch gives it)");
  }
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, bytes, sizeof handle);
  return handle;
}

// Where the allocation that `pointer` lies in begins, and its size; false where the driver cannot say.
bool allocationOf(const void* pointer, std::uint64_t& base, std::size_t& bytes) {
  using GetAddressRange = int (*)(unsigned long long*, std::size_t*, unsigned long long);
  static const GetAddressRange getAddressRange = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t result =
        cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 3020, cudaEnableDefault, &found);
    if (result != cudaSuccess || found != cudaDriverEntryPointSuccess) {
      cudaGetLastError();
      entry = nullptr;
    }
    return reinterpret_cast<GetAddressRange>(entry);
  }();
  if (getAddressRange == nullptr) return false;
  unsigned long long first = 0;
  if (getAddressRange(&first, &bytes, reinterpret_cast<unsigned long long>(pointer)) != 0) return false;
  base = first;
  return true;
}

cudaEvent_t openEvent(const void* eventHandle) {
  cudaIpcEventHandle_t handle;
  std::memcpy(&handle, eventHandle, sizeof handle);
  cudaEvent_t event = nullptr;
  const cudaError_t opened = cudaIpcOpenEventHandle(&event, handle);
  if (opened != cudaSuccess) {
    cudaGetLastError();
    badHandle(std::string("the event's handle cannot be opened: ") + cudaGetErrorString(opened) +
                  "; the producer must keep its event until the tensor is released",
              opened);
  }
  return event;
}

}  // namespace

void importMemory(CollapsarCudaDevice& device, CollapsarCudaIpcImport& import) {
  expectVersion(import, "import");
  expect(import.handle != nullptr, "handle: null");
  expect(import.offset_bytes >= 0 && import.bytes >= 0, "offset_bytes, bytes: negative");
  device.use();
  const cudaIpcMemHandle_t handle = memoryHandle(import);
  void* base = nullptr;
  const cudaError_t opened = cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
  if (opened != cudaSuccess) {
    cudaGetLastError();
    const CollapsarCudaStatus status = statusOf(opened);
    if (status == COLLAPSAR_CUDA_DEVICE_LOST) check(opened, "opening the handle");
    if (status == COLLAPSAR_CUDA_OUT_OF_MEMORY) checkAllocation(opened, import.bytes, "another process's memory");
    badHandle(std::string("the memory's handle cannot be opened: ") + cudaGetErrorString(opened) + " (" +
                  cudaGetErrorName(opened) +
                  "); it must come from another live process that still holds the memory, of a GPU that this process "
                  "sees, and not from this process itself",
              opened);
  }
  try {
    std::uint64_t first = 0;
    std::size_t bytes = 0;
    if (allocationOf(base, first, bytes)) {
      const std::uint64_t before = reinterpret_cast<std::uint64_t>(base) - first;
      const std::uint64_t offset = static_cast<std::uint64_t>(import.offset_bytes);
      const std::uint64_t size = static_cast<std::uint64_t>(import.bytes);
      if (offset > bytes - before || size > bytes - before - offset) {
        badHandle("the handle's memory has " + std::to_string(bytes - before) + " bytes, fewer than the offset of " +
                  std::to_string(offset) + " and the size of " + std::to_string(size) + " ask for");
      }
    }
    device.opened(base, import.event_handle == nullptr ? nullptr : openEvent(import.event_handle));
  } catch (...) {
    cudaIpcCloseMemHandle(base);
    throw;
  }
  import.base = base;
  import.pointer = static_cast<char*>(base) + import.offset_bytes;
}

void closeMemory(CollapsarCudaDevice& device, void* base) {
  if (base == nullptr) return;
  device.use();
  device.synchronize();  // nothing may read it any more
  device.closed(base);
  check(cudaIpcCloseMemHandle(base), "closing another process's memory");
}

void exportMemory(CollapsarCudaDevice& device, CollapsarCudaIpcExport& out) {
  expectVersion(out, "out");
  expect(out.pointer != nullptr, "pointer: null");
  device.use();
  std::uint64_t first = 0;
  std::size_t bytes = 0;
  if (!allocationOf(out.pointer, first, bytes)) invalid("pointer: the driver knows no allocation that it lies in");
  cudaIpcMemHandle_t handle;
  check(cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(first)), "making a handle");
  out.offset_bytes = static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(out.pointer) - first);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess), "making an event");
  cudaIpcEventHandle_t eventHandle;
  cudaError_t result = cudaIpcGetEventHandle(&eventHandle, event);
  if (result == cudaSuccess) result = cudaEventRecord(event, device.stream());
  if (result != cudaSuccess) {
    cudaEventDestroy(event);
    check(result, "making a handle of an event");
  }
  std::memcpy(out.handle, &handle, sizeof handle);
  std::memcpy(out.event_handle, &eventHandle, sizeof eventHandle);
  out.event = event;
}

void endExport(CollapsarCudaDevice& device, void* event) {
  if (event == nullptr) return;
  device.use();
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

}  // namespace collapsar::cuda
