// A matrix of any layout, on host or device -> blocks of rows on the device whose columns lie side by side: in place,
// gathered by a kernel, or sent through two buffers in turn. No buffer grows with the matrix.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/call.h"

namespace collapsar::cuda {

struct Matrix {
  const void* data;
  bool onDevice;
  std::int64_t elementBytes;
  std::int64_t rows, columns;
  std::int64_t rowStride, columnStride;  // in elements
};

// Entries [begin, end) of a list of rows. If `gathered`, they lie one after the other in `data`; else row number n of
// the range given to forRowBlocks is at data + n * rowStride.
struct RowBlock {
  const void* data;
  std::int64_t rowStride;
  std::int64_t begin, end;
  bool gathered;
};

// Calls `start` for one block after the other, inside call.run(). `rowList`: which rows of [firstRow, firstRow +
// rowCount), relative to firstRow; null: all. deviceList: the same on the device.
void forRowBlocks(CollapsarCudaDevice& device, Call& call, const Matrix& matrix, std::int64_t firstRow,
                  std::int64_t rowCount, const std::vector<std::int32_t>* rowList, const std::int32_t* deviceList,
                  const std::function<void(const RowBlock&)>& start);

}  // namespace collapsar::cuda
