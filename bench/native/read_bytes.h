// Sums all bytes of memory at the speed of reading: the roofline that kernels are compared with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/thread_pool.h"

namespace collapsar {

// Reads [data, data + bytes) once, with the widest loads that this CPU has, whatever instruction set the kernels are
// forced to, and cuts it among the pool's threads. `prefetchBytes`: how far ahead to prefetch by hand; 0 leaves it to
// the hardware. Which is fastest depends on the machine's own prefetcher: measure, and take the best. The sum, modulo
// 2^64, is of all whole little-endian 64-bit words from `data` on and then of the bytes that remain; any alignment. It
// only proves that every byte was read.
std::uint64_t readBytes(const void* data, std::size_t bytes, std::int64_t prefetchBytes, ThreadPool& pool);

}  // namespace collapsar
