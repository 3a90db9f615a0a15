// How many float32 vector multiply-adds a second the processor does: what kernels are bound by that compute more than
// they read. For benchmarks, beside read_bytes.h.
#pragma once

#include <cstdint>

#include "isa.h"
#include "job_control.h"
#include "thread_pool.h"

namespace collapsar {

// Each of the pool's threads does `steps` steps of 16 multiply-adds that do not wait for each other, in vectors of
// `isa` (baseline: one multiplication and one addition each). `lanes`: float32 lanes of a vector.
Outcome multiplyAdds(Isa isa, std::int64_t steps, ThreadPool& pool, JobControl& control, int* lanes);

}  // namespace collapsar
