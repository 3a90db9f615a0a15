// What every operation asks of its arguments: the caller has checked them, but a mistake must not become a lost GPU.
#pragma once

#include <cstdint>
#include <string>

#include "failure.h"

namespace collapsar::cuda {

template <class Struct>
void expectVersion(const Struct& given, const char* name) {
  if (given.size != sizeof(Struct)) invalid(std::string(name) + ": its size is of another version of the ABI");
}

inline void expect(bool holds, const char* problem) {
  if (!holds) invalid(problem);
}

inline std::int64_t elementBytes(std::int32_t dtype) {
  expect(dtype >= COLLAPSAR_CUDA_FLOAT64 && dtype <= COLLAPSAR_CUDA_BFLOAT16, "dtype: not one of 0 to 3");
  return dtype == COLLAPSAR_CUDA_FLOAT64 ? 8 : dtype == COLLAPSAR_CUDA_FLOAT32 ? 4 : 2;
}

inline void expectAligned(const void* data, std::int64_t bytes) {
  expect(reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0,
         "data: not aligned to its elements");
}

// Row statistics: of `rows` rows and `columns` columns.
inline void expectRowStats(const CollapsarCudaRowLabels& labels, const CollapsarCudaRowStats& out, std::int64_t rows,
                           std::int64_t columns) {
  expect(out.top_k >= 0 && out.top_k <= COLLAPSAR_CUDA_MAX_TOP_K && (out.top_k <= columns || rows == 0),
         "top_k: not between 0 and 8, or more than there are columns");
  if (rows == 0 || columns == 0) return;
  expect(labels.own != nullptr && labels.lengths != nullptr, "own, lengths: null");
  for (std::int64_t row = 0; row < rows; row++) {
    expect(labels.own[row] >= 0 && labels.own[row] < columns, "own: an entry is not a column");
  }
  for (std::int64_t column = 0; labels.signature != nullptr && column < columns; column++) {
    expect(labels.signature[column] >= 0 && labels.signature[column] < columns, "signature: an entry is out of range");
  }
}

}  // namespace collapsar::cuda
