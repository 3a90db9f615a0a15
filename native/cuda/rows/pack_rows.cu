// A tile of 32 x 32 goes through shared memory, so that both sides are read and written along the nearer neighbours.
#include "pack_rows.h"

#include "cuda/kernel_launch.h"

namespace collapsar::cuda {

namespace {

constexpr int kTile = 32;
constexpr int kTileThreads = 256;

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    packRows(const T* data, int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride,
             const int32_t* rowIndex, T* packed, int64_t packedStride, int64_t columnTiles) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t firstRow = blockIdx.x / columnTiles * kTile, firstColumn = blockIdx.x % columnTiles * kTile;
  // Threads side by side take rows side by side: of these matrices, those are the nearer.
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kTileThreads) {
    const int64_t row = firstRow + i % kTile, column = firstColumn + i / kTile;
    if (row >= rows || column >= columns) continue;
    const int64_t from = rowIndex != nullptr ? rowIndex[row] : row;
    tile[i % kTile][i / kTile] = data[from * rowStride + column * columnStride];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kTileThreads) {
    const int64_t row = firstRow + i / kTile, column = firstColumn + i % kTile;
    if (row < rows && column < columns) packed[row * packedStride + column] = tile[i / kTile][i % kTile];
  }
}

template <class T>
void start(const void* data, int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride,
           const int32_t* rowIndex, void* packed, int64_t packedStride, cudaStream_t stream) {
  const int64_t columnTiles = (columns + kTile - 1) / kTile;
  COLLAPSAR_LAUNCH(packRows<T>, static_cast<unsigned>((rows + kTile - 1) / kTile * columnTiles), kTileThreads, stream,
                   static_cast<const T*>(data), rows, columns, rowStride, columnStride, rowIndex,
                   static_cast<T*>(packed), packedStride, columnTiles);
}

}  // namespace

cudaError_t launchPackRows(const void* data, int64_t elementBytes, int64_t rows, int64_t columns, int64_t rowStride,
                           int64_t columnStride, const int32_t* rowIndex, void* packed, int64_t packedStride,
                           cudaStream_t stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  if (elementBytes == 8) {
    start<uint64_t>(data, rows, columns, rowStride, columnStride, rowIndex, packed, packedStride, stream);
  } else if (elementBytes == 4) {
    start<uint32_t>(data, rows, columns, rowStride, columnStride, rowIndex, packed, packedStride, stream);
  } else {
    start<uint16_t>(data, rows, columns, rowStride, columnStride, rowIndex, packed, packedStride, stream);
  }
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
