#include "multiply_adds.h"

#include <vector>

#include "engine/simd/kernel_table.h"

namespace collapsar {

Outcome multiplyAdds(std::int64_t steps, ThreadPool& pool, JobControl& control, std::int64_t* count, double* sum) {
  const std::size_t threads = static_cast<std::size_t>(pool.threads());
  std::vector<std::int64_t> counts(threads);
  std::vector<float> sums(threads);
  control.totalUnits.store(pool.threads(), std::memory_order_relaxed);
  const Outcome outcome = pool.run(pool.threads(), control, [&](std::int64_t part, int) {
    const std::size_t at = static_cast<std::size_t>(part);
    counts[at] = kernels().multiplyAdds(steps, &sums[at]);
    control.doneUnits.fetch_add(1, std::memory_order_relaxed);
  });
  *count = 0;
  *sum = 0;
  for (std::size_t at = 0; at < threads; at++) {
    *count += counts[at];
    *sum += static_cast<double>(sums[at]);
  }
  return outcome;
}

}  // namespace collapsar
