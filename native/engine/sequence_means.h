// Values of rows -> their means over sequences of rows: the same bits for the CPU and the GPU's backend.
#pragma once

#include <cstdint>

#include "exact_sum.h"
#include "special_values.h"

namespace collapsar {

// means[i]: over the rows [begins[i], ends[i]) that the mask (null: all) leaves; NaN for none. `means` may be null.
inline void sequenceMeans(std::int64_t sequences, const std::int64_t* begins, const std::int64_t* ends,
                          const std::uint8_t* mask, const double* values, double* means) {
  if (means == nullptr) return;
  for (std::int64_t i = 0; i < sequences; i++) {
    ExactSum sum;
    std::int64_t rows = 0;
    for (std::int64_t row = begins[i]; row < ends[i]; row++) {
      if (mask != nullptr && mask[row] == 0) continue;
      sum.add(values[row]);
      rows++;
    }
    const double mean = rows == 0 ? kNaN : sum.round() / static_cast<double>(rows);
    means[i] = mean == mean ? mean : kNaN;  // one NaN, whatever the machine makes
  }
}

}  // namespace collapsar
