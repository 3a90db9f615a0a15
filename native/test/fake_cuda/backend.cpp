// A CUDA backend without CUDA, for tests of all that stands around the real one: the ABI of cuda/backend.h over host
// memory, in plain float64 loops. "Device memory" is of limited size and can be shared with other processes; host
// tensors go through it in blocks of rows. Environment variables, read at every call, say what shall go wrong:
//   COLLAPSAR_FAKE_CUDA_FAIL     crash | exit | hang | version | no_driver | driver_too_old | no_device | open |
//                                wrong | lost
//   COLLAPSAR_FAKE_CUDA_DEVICES  how many devices there are (2)
//   COLLAPSAR_FAKE_CUDA_BYTES    memory of each (64 MiB)
//   COLLAPSAR_FAKE_CUDA_ROW_US   microseconds that each row of an operation takes more (0)
//   COLLAPSAR_FAKE_CUDA_TRACE    a file that gets a line a call
#include "cuda/backend.h"

#include "device_memory.h"
#include "devices.h"
#include "operations.h"
#include "settings.h"

namespace fake_cuda {
namespace {

constexpr CollapsarCudaBackend kBackend = {
    sizeof(CollapsarCudaBackend),
    COLLAPSAR_CUDA_ABI_VERSION,
    "a fake for tests: no GPU is used",
    deviceCount,
    deviceInfo,
    openDevice,
    closeDevice,
    memoryInfo,
    allocate,
    deallocate,
    upload,
    download,
    ipcImport,
    ipcClose,
    ipcExport,
    ipcExportEnd,
    logitStats,
    scoreStats,
    sumTokens,
    tokensToRowStats,
    readBytes,
};

}  // namespace
}  // namespace fake_cuda

const CollapsarCudaBackend* collapsar_cuda_backend(std::uint32_t version) {
  return version == COLLAPSAR_CUDA_ABI_VERSION && !fake_cuda::fails("version") ? &fake_cuda::kBackend : nullptr;
}
