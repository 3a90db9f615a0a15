// Memory -> a sum over all its bytes, at the speed of reading: the roofline that the benchmarks compare kernels with.
#pragma once

#include <cstddef>

#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// How to read. Which is fastest depends on the machine's own prefetcher: measure, and take the best.
struct ReadPlan {
  std::int64_t prefetchBytes;  // how far ahead to prefetch by hand; 0: leave it to the hardware
};

// Reads [data, data + bytes) once, with the widest loads that this CPU has, whatever instruction set the kernels are
// forced to, and cuts it among the pool's threads. `sum`: of all whole little-endian 64-bit words from `data` on and
// then of the bytes that remain, modulo 2^64; any alignment. It only proves that every byte was read.
Outcome readBytes(const void* data, std::size_t bytes, const ReadPlan& plan, ThreadPool& pool, JobControl& control,
                  std::uint64_t* sum);

}  // namespace collapsar
