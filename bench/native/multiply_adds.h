// How many float32 multiply-adds the processor does: what kernels are bound by that compute more than they read.
#pragma once

#include <cstdint>

#include "engine/thread_pool.h"

namespace collapsar {

// `count`: of lanes, over all threads. `sum`: of what all came to; it only proves that they were done.
struct MultiplyAdds {
  std::int64_t count = 0;
  double sum = 0;
};

// Each of the pool's threads does `steps` steps of the vector multiply-adds that the kernels of activeIsa() are made of.
MultiplyAdds multiplyAdds(std::int64_t steps, ThreadPool& pool);

}  // namespace collapsar
