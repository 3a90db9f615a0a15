#include "prefetch.h"

namespace collapsar {

namespace {

// Few requests of an Intel core's L1 cache can be on their way at once, and memory takes long: the L2 cache has more
// (Emerald Rapids: logitStats of float32 takes .89 of the time, sumTokens .9).
bool isIntel() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace

bool asksL2First() {
  static const bool answer = isIntel();
  return answer;
}

}  // namespace collapsar
