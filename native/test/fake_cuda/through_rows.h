// Row by row through a tensor, wherever it is; and where results are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <thread>

#include "device.h"
#include "elements.h"
#include "settings.h"

namespace fake_cuda {

// Calls `each` for every row; rows of a host tensor are first taken into device memory, as many at a time as half of
// what is free has place for. Polls for cancellation and reports, in elements.
template <typename Each>
Status throughRows(CollapsarCudaDevice* device, bool onDevice, std::int64_t rows, std::int64_t rowElements,
                   std::int32_t dtype, const CollapsarCudaControl* control, Error* error, Each each) {
  const std::int64_t rowBytes = std::max<std::int64_t>(1, rowElements * sizeOfType(dtype));
  const std::int64_t place = std::max(rowBytes, (deviceBytes() - device->used) / 2);
  const std::int64_t block = onDevice ? 64 : std::max<std::int64_t>(1, std::min(rows, place / rowBytes));
  const std::int64_t staging = onDevice ? 0 : block * rowBytes;
  const auto pause = std::chrono::microseconds(number("ROW_US", 0));
  COLLAPSAR_FAKE_TRY(reserve(device, staging, error));
  Status status = COLLAPSAR_CUDA_OK;
  for (std::int64_t first = 0; first < rows && status == COLLAPSAR_CUDA_OK; first += block) {
    const std::int64_t end = std::min(rows, first + block);
    if (!onDevice) trace("block", device);
    for (std::int64_t row = first; row < end; ++row) {
      if (isCancelled(control)) {
        status = failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
        break;
      }
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      each(row);
    }
    report(control, end * rowElements, rows * rowElements);
  }
  device->used -= staging;
  return status;
}

// Both kinds of memory are the host's here, so that a result in the wrong one would go unnoticed.
Status checkPlace(const CollapsarCudaDevice* device, std::initializer_list<const void*> fields, bool onDevice,
                  Error* error);

}  // namespace fake_cuda
