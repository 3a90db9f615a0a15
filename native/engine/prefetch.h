// How far ahead of what a kernel works on it asks memory for more.
#pragma once

#include <cstdint>

namespace collapsar {

// In bytes: of what is asked for into the L1 cache, and into the L2 cache.
struct PrefetchDistances {
  std::uintptr_t near, far;
};

// Of this processor.
PrefetchDistances prefetchDistances();

}  // namespace collapsar
