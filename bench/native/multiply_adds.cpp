#include "multiply_adds.h"

#include <vector>

#include "engine/isa.h"

namespace collapsar {

// Of one thread: how many lanes took part. multiply_adds_kernel.cpp, once for each instruction set.
using Kernel = std::int64_t(std::int64_t steps, float* sum);
Kernel multiplyAdds_baseline;
#if defined(__x86_64__)
Kernel multiplyAdds_avx2, multiplyAdds_avx512;
#elif defined(__aarch64__)
Kernel multiplyAdds_neon;
#endif

namespace {

Kernel* kernel() {
  switch (activeIsa()) {
#if defined(__x86_64__)
    case Isa::Avx2:
      return multiplyAdds_avx2;
    case Isa::Avx512:
      return multiplyAdds_avx512;
#elif defined(__aarch64__)
    case Isa::Neon:
      return multiplyAdds_neon;
#endif
    default:
      return multiplyAdds_baseline;
  }
}

}  // namespace

MultiplyAdds multiplyAdds(std::int64_t steps, ThreadPool& pool) {
  Kernel* const run = kernel();
  const std::size_t threads = static_cast<std::size_t>(pool.threads());
  std::vector<std::int64_t> counts(threads);
  std::vector<float> sums(threads);
  JobControl control;
  pool.run(pool.threads(), control, [&](std::int64_t part, int) {
    const std::size_t at = static_cast<std::size_t>(part);
    counts[at] = run(steps, &sums[at]);
  });
  MultiplyAdds all;
  for (std::size_t at = 0; at < threads; at++) {
    all.count += counts[at];
    all.sum += static_cast<double>(sums[at]);
  }
  return all;
}

}  // namespace collapsar
