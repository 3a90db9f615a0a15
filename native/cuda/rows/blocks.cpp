#include "blocks.h"

#include <algorithm>
#include <cstring>

#include "cuda/failure.h"
#include "cuda/portions.h"
#include "pack_rows.h"

namespace collapsar::cuda {

namespace {

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// The rows that are wanted of a matrix: those listed, or all of a range.
struct WantedRows {
  const Matrix& matrix;
  std::int64_t firstRow, count;
  const std::vector<std::int32_t>* list;  // relative to firstRow; null: the whole range
  const std::int32_t* deviceList;         // the same on the device

  // Where row firstRow stands.
  const char* origin() const {
    return static_cast<const char*>(matrix.data) + firstRow * matrix.rowStride * matrix.elementBytes;
  }
  std::int64_t rowOf(std::int64_t entry) const {
    return firstRow + (list != nullptr ? (*list)[static_cast<std::size_t>(entry)] : entry);
  }
};

// Elements [from, from + count) of one row of host memory.
void copyElements(const Matrix& matrix, std::int64_t row, std::int64_t from, std::int64_t count, char* to) {
  const std::int64_t size = matrix.elementBytes;
  const char* const source =
      static_cast<const char*>(matrix.data) + (row * matrix.rowStride + from * matrix.columnStride) * size;
  if (matrix.columnStride == 1) {
    std::memcpy(to, source, static_cast<std::size_t>(count * size));
    return;
  }
  for (std::int64_t i = 0; i < count; i++) {
    std::memcpy(to + i * size, source + i * matrix.columnStride * size, static_cast<std::size_t>(size));
  }
}

// Elements [first, last) of a block that begins with the entry `begin` and whose rows are `stride` long: the columns of
// a row, then zeros up to the next one.
void fillElements(const WantedRows& rows, std::int64_t begin, std::int64_t stride, std::int64_t first,
                  std::int64_t last, char* to) {
  const Matrix& matrix = rows.matrix;
  for (std::int64_t i = first; i < last;) {
    const std::int64_t inRow = i % stride, many = std::min(stride - inRow, last - i);
    const std::int64_t count = std::min(many, std::max<std::int64_t>(0, matrix.columns - inRow));
    char* const target = to + (i - first) * matrix.elementBytes;
    copyElements(matrix, rows.rowOf(begin + i / stride), inRow, count, target);
    std::memset(target + count * matrix.elementBytes, 0,
                static_cast<std::size_t>((many - count) * matrix.elementBytes));
    i += many;
  }
}

// The matrix is on the device and its columns lie side by side: nothing is copied.
void passInPlace(CollapsarCudaDevice& device, Call& call, const WantedRows& rows, std::int64_t rowBytes,
                 const std::function<void(const RowBlock&)>& start) {
  const std::int64_t step = std::max<std::int64_t>(1, kDirectBytes / rowBytes);
  for (std::int64_t begin = 0; begin < rows.count; begin += step) {
    call.stopIfCancelled();
    const std::int64_t end = std::min(begin + step, rows.count);
    call.run([&] { start({rows.origin(), rows.matrix.rowStride, begin, end, false}); });
    if (end < rows.count) device.synchronize();
    call.addDone((end - begin) * rows.matrix.columns);
  }
}

// Rows of device memory -> a block of it, by a kernel.
void gather(CollapsarCudaDevice& device, const WantedRows& rows, const RowBlock& block, void* to) {
  const Matrix& matrix = rows.matrix;
  const bool listed = rows.deviceList != nullptr;
  const char* const from =
      listed ? rows.origin() : rows.origin() + block.begin * matrix.rowStride * matrix.elementBytes;
  check(launchPackRows(from, matrix.elementBytes, block.end - block.begin, matrix.columns, matrix.rowStride,
                       matrix.columnStride, listed ? rows.deviceList + block.begin : nullptr, to, block.rowStride,
                       device.stream()),
        "gathering rows");
}

// Rows of host memory -> a block of the device's, by way of the staging buffers.
void send(CollapsarCudaDevice& device, Call& call, const WantedRows& rows, const RowBlock& block, void* to) {
  const std::int64_t size = rows.matrix.elementBytes;
  device.uploadFilled(to, (block.end - block.begin) * block.rowStride * size, size, device.inputStream(),
                      [&](char* buffer, std::int64_t at, std::int64_t bytes) {
                        call.stopIfCancelled();
                        fillElements(rows, block.begin, block.rowStride, at / size, (at + bytes) / size, buffer);
                      });
}

}  // namespace

void forRowBlocks(CollapsarCudaDevice& device, Call& call, const Matrix& matrix, std::int64_t firstRow,
                  std::int64_t rowCount, const std::vector<std::int32_t>* rowList, const std::int32_t* deviceList,
                  const std::function<void(const RowBlock&)>& start) {
  const WantedRows rows{matrix, firstRow, rowList != nullptr ? static_cast<std::int64_t>(rowList->size()) : rowCount,
                        rowList, deviceList};
  const std::int64_t rowBytes = std::max<std::int64_t>(1, matrix.columns * matrix.elementBytes);
  if (matrix.onDevice && (matrix.columnStride == 1 || matrix.columns <= 1)) {
    return passInPlace(device, call, rows, rowBytes, start);
  }

  // Rows start at a multiple of 16 bytes, as the kernels like it best.
  const std::int64_t stride = (rowBytes + 15) / 16 * 16 / matrix.elementBytes;
  const std::int64_t step = std::max<std::int64_t>(1, kBlockBytes / (stride * matrix.elementBytes));
  // Two blocks in turn: the next one is filled while kernels use this one.
  Event filled[2], used[2];
  int turn = 0;
  for (std::int64_t begin = 0; begin < rows.count; begin += step, turn ^= 1) {
    call.stopIfCancelled();
    const std::int64_t end = std::min(begin + step, rows.count);
    void* const memory =
        device.space(turn == 0 ? Space::InputA : Space::InputB, (end - begin) * stride * matrix.elementBytes);
    const RowBlock block{memory, stride, begin, end, true};
    if (matrix.onDevice) {
      call.run([&] {
        gather(device, rows, block, memory);
        start(block);
      });
    } else {
      check(cudaStreamWaitEvent(device.inputStream(), used[turn], 0), "waiting for a kernel");
      send(device, call, rows, block, memory);
      check(cudaEventRecord(filled[turn], device.inputStream()), "copying to the GPU");
      check(cudaStreamWaitEvent(device.stream(), filled[turn], 0), "waiting for a copy");
      call.run([&] { start(block); });
      check(cudaEventRecord(used[turn], device.stream()), "running kernels");
    }
    call.addDone((end - begin) * matrix.columns);
  }
  // The events go away with this call's end, and the work that waits for them may not have started.
  device.synchronize();
}

}  // namespace collapsar::cuda
