#include "prefetch.h"

namespace collapsar {

namespace {

// Few requests of an Intel core's L1 cache can be on their way at once, and memory takes long: the L2 cache, which
// has more, asks for what is far, and the L1 cache fetches it from there in time (logitStats of float32 in .89 of the
// time on Emerald Rapids). Elsewhere the L1 cache asks for what is far; what the L2 cache is asked for is then at hand.
PrefetchDistances distances() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return {2048, 16384};
#endif
  return {16384, 0};
}

}  // namespace

PrefetchDistances prefetchDistances() {
  static const PrefetchDistances found = distances();
  return found;
}

}  // namespace collapsar
