// How many float32 multiply-adds the processor does: what kernels are bound by that compute more than they read. For
// benchmarks, beside read_bytes.h.
#pragma once

#include <cstdint>

#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// Each of the pool's threads does `steps` steps of the vector multiply-adds that the kernels are made of. `count`: of
// lanes, over all threads. `sum`: of what all came to; it only proves that they were done.
Outcome multiplyAdds(std::int64_t steps, ThreadPool& pool, JobControl& control, std::int64_t* count, double* sum);

}  // namespace collapsar
