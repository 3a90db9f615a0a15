// What scoreStats and tokensToRowStats give of each row.
#pragma once

#include <cstdint>
#include <vector>

#include "device.h"

namespace fake_cuda {

Status checkRowStats(const CollapsarCudaDevice* device, const CollapsarCudaRowStats* out, Error* error);

void statsOfRow(const std::vector<double>& scores, std::int64_t row, const CollapsarCudaRowLabels* labels,
                std::int64_t length, const CollapsarCudaRowStats* out);

}  // namespace fake_cuda
