// Device memory that is the host's: allocated, copied, and shared with other processes.
#pragma once

#include <cstdint>

#include "device.h"

namespace fake_cuda {

Status allocate(CollapsarCudaDevice* device, std::int64_t bytes, void** pointer, Error* error);
Status deallocate(CollapsarCudaDevice* device, void* pointer, Error* error);
Status upload(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
              const CollapsarCudaControl* control, Error* error);
Status download(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
                const CollapsarCudaControl* control, Error* error);
Status memoryInfo(CollapsarCudaDevice* device, std::int64_t* free, std::int64_t* total, Error* error);
Status ipcImport(CollapsarCudaDevice* device, CollapsarCudaIpcImport* import, Error* error);
Status ipcClose(CollapsarCudaDevice* device, void* base, Error* error);
Status ipcExport(CollapsarCudaDevice* device, CollapsarCudaIpcExport* out, Error* error);
void ipcExportEnd(CollapsarCudaDevice*, void*);

}  // namespace fake_cuda
