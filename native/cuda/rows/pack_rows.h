// Rows whose columns do not lie side by side -> a block of rows whose columns do: the kernels read nothing else.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace collapsar::cuda {

// packed[i * packedStride + c] = data[(rowIndex ? rowIndex[i] : i) * rowStride + c * columnStride]; 2, 4 or 8 bytes
// each.
cudaError_t launchPackRows(const void* data, int64_t elementBytes, int64_t rows, int64_t columns, int64_t rowStride,
                           int64_t columnStride, const int32_t* rowIndex, void* packed, int64_t packedStride,
                           cudaStream_t stream);

}  // namespace collapsar::cuda
