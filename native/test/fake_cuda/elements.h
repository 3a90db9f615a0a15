// Elements of the four dtypes as doubles, and results that may not be wanted.
#pragma once

#include <cstdint>

#include "cuda/backend.h"
#include "engine/half.h"

namespace fake_cuda {

inline double valueAt(const void* data, std::int32_t dtype, std::int64_t index) {
  switch (dtype) {
    case COLLAPSAR_CUDA_FLOAT64:
      return static_cast<const double*>(data)[index];
    case COLLAPSAR_CUDA_FLOAT32:
      return static_cast<const float*>(data)[index];
    case COLLAPSAR_CUDA_FLOAT16:
      return collapsar::float16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
    default:
      return collapsar::bfloat16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
  }
}

inline std::int64_t sizeOfType(std::int32_t dtype) { return dtype == 0 ? 8 : dtype == 1 ? 4 : 2; }

template <typename T>
void put(T* field, std::int64_t at, T value) {
  if (field != nullptr) field[at] = value;
}

}  // namespace fake_cuda
