#include <cstring>

#include "operations.h"

namespace fake_cuda {

Status readBytes(CollapsarCudaDevice* device, const void* data, std::int64_t bytes, std::uint64_t* sum,
                 const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("read_bytes", device, control, error));
  const unsigned char* const at = static_cast<const unsigned char*>(data);
  std::int64_t i = 0;
  *sum = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, at + i, sizeof word);
    *sum += word;
  }
  for (; i < bytes; ++i) *sum += at[i];
  return COLLAPSAR_CUDA_OK;
}

}  // namespace fake_cuda
