#include "through_rows.h"

namespace fake_cuda {

Status checkPlace(const CollapsarCudaDevice* device, std::initializer_list<const void*> fields, bool onDevice,
                  Error* error) {
  for (const void* const field : fields) {
    if (field == nullptr) continue;
    auto entry = device->memory.upper_bound(field);
    bool inside = false;
    if (entry != device->memory.begin()) {
      --entry;
      inside = static_cast<const char*>(field) < static_cast<const char*>(entry->first) + entry->second.mapped;
    }
    if (inside != onDevice) {
      return failure(error, COLLAPSAR_CUDA_INVALID, "a result in memory of %s", onDevice ? "the host" : "the device");
    }
  }
  return COLLAPSAR_CUDA_OK;
}

}  // namespace fake_cuda
