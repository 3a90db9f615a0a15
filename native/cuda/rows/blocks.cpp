#include "blocks.h"

#include <algorithm>
#include <cstring>

#include "cuda/failure.h"
#include "pack_rows.h"

namespace collapsar::cuda {

namespace {

// Read in place between two looks at `cancelled`: 4 ms of an H200's bandwidth.
constexpr std::int64_t kDirectBytes = std::int64_t{16} << 30;
constexpr std::int64_t kBlockBytes = 64 << 20;

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

}  // namespace

void forRowBlocks(CollapsarCudaDevice& device, Call& call, const Matrix& matrix, std::int64_t firstRow,
                  std::int64_t rowCount, const std::vector<std::int32_t>* rowList, const std::int32_t* deviceList,
                  const std::function<void(const RowBlock&)>& start) {
  const std::int64_t listed = rowList != nullptr ? static_cast<std::int64_t>(rowList->size()) : rowCount;
  const std::int64_t rowBytes = std::max<std::int64_t>(1, matrix.columns * matrix.elementBytes);
  const char* const origin = static_cast<const char*>(matrix.data) + firstRow * matrix.rowStride * matrix.elementBytes;

  if (matrix.onDevice && (matrix.columnStride == 1 || matrix.columns <= 1)) {
    const std::int64_t step = std::max<std::int64_t>(1, kDirectBytes / rowBytes);
    for (std::int64_t begin = 0; begin < listed; begin += step) {
      call.stopIfCancelled();
      const std::int64_t end = std::min(begin + step, listed);
      call.run([&] { start({origin, matrix.rowStride, begin, end, false}); });
      if (end < listed) device.synchronize();
      call.addDone((end - begin) * matrix.columns);
    }
    return;
  }

  // Rows start at a multiple of 16 bytes, as the kernels like it best.
  const std::int64_t stride = (rowBytes + 15) / 16 * 16 / matrix.elementBytes;
  const std::int64_t step = std::max<std::int64_t>(1, kBlockBytes / (stride * matrix.elementBytes));
  Event filled[2], used[2];
  int turn = 0;
  for (std::int64_t begin = 0; begin < listed; begin += step, turn ^= 1) {
    call.stopIfCancelled();
    const std::int64_t end = std::min(begin + step, listed);
    const std::int64_t bytes = (end - begin) * stride * matrix.elementBytes;
    void* const block = device.space(turn == 0 ? Space::InputA : Space::InputB, bytes);
    if (matrix.onDevice) {
      call.run([&] {
        const char* const from =
            deviceList != nullptr ? origin : origin + begin * matrix.rowStride * matrix.elementBytes;
        check(launchPackRows(from, matrix.elementBytes, end - begin, matrix.columns, matrix.rowStride,
                             matrix.columnStride, deviceList != nullptr ? deviceList + begin : nullptr, block, stride,
                             device.stream()),
              "gathering rows");
        start({block, stride, begin, end, true});
      });
    } else {
      check(cudaStreamWaitEvent(device.inputStream(), used[turn], 0), "waiting for a kernel");
      device.uploadFilled(block, bytes, matrix.elementBytes, device.inputStream(),
                          [&](char* buffer, std::int64_t at, std::int64_t size) {
                            call.stopIfCancelled();
                            const std::int64_t first = at / matrix.elementBytes;
                            const std::int64_t last = (at + size) / matrix.elementBytes;
                            for (std::int64_t i = first; i < last;) {
                              const std::int64_t inRow = i % stride, entry = begin + i / stride;
                              const std::int64_t many = std::min(stride - inRow, last - i);
                              const std::int64_t count =
                                  std::min(many, std::max<std::int64_t>(0, matrix.columns - inRow));
                              const std::int64_t row =
                                  firstRow + (rowList != nullptr ? (*rowList)[static_cast<std::size_t>(entry)] : entry);
                              char* const to = buffer + (i - first) * matrix.elementBytes;
                              copyElements(matrix, row, inRow, count, to);
                              std::memset(to + count * matrix.elementBytes, 0,
                                          static_cast<std::size_t>((many - count) * matrix.elementBytes));
                              i += many;
                            }
                          });
      check(cudaEventRecord(filled[turn], device.inputStream()), "copying to the GPU");
      check(cudaStreamWaitEvent(device.stream(), filled[turn], 0), "waiting for a copy");
      call.run([&] { start({block, stride, begin, end, true}); });
      check(cudaEventRecord(used[turn], device.stream()), "running kernels");
    }
    call.addDone((end - begin) * matrix.columns);
  }
  // The events go away with this call's end, the work that waits for them may not have started.
  device.synchronize();
}

}  // namespace collapsar::cuda
