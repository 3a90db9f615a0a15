// The threads that share one row: 1 to 32 lanes of a warp, or a whole block of 256. Reductions in a fixed order:
// butterflies inside a warp, then the warps of the block one after the other, so that every thread ends with the same
// bits, run after run.
#pragma once

#include "exponential_sums.h"

namespace collapsar::cuda {

constexpr int kBlockThreads = 256;
constexpr int kWarpLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <class V>
__device__ __forceinline__ V exchanged(V value, int laneMask) {
  static_assert(sizeof(V) % 4 == 0, "whole words are exchanged");
  uint32_t words[sizeof(V) / 4];
  memcpy(words, &value, sizeof(V));
  COLLAPSAR_UNROLLED
  for (unsigned i = 0; i < sizeof(V) / 4; i++) words[i] = __shfl_xor_sync(kAllLanes, words[i], laneMask);
  memcpy(&value, words, sizeof(V));
  return value;
}

// All lanes of a warp must call: a group smaller than a warp has neighbours in it.
template <int kLanes, class V, class Op>
__device__ __forceinline__ V reduceLanes(V value, Op op) {
  COLLAPSAR_UNROLLED
  for (int step = kLanes / 2; step > 0; step /= 2) value = op(value, exchanged(value, step));
  return value;
}

template <int kLanes>
struct ThreadGroup {
  static_assert(kLanes <= kWarpLanes || kLanes == kBlockThreads, "lanes of a warp, or the block");
  static constexpr int kGroups = kBlockThreads / kLanes;  // of a block

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int index() { return static_cast<int>(threadIdx.x) / kLanes; }  // in the block

  // Whether it holds in any lane of the group, or of its warp: the same answer for all threads that exchange values,
  // who may only do so in branches that all of them take.
  __device__ static bool anyInReach(bool holds) {
    if constexpr (kLanes == 1) return holds;
    if constexpr (kLanes <= kWarpLanes) return __ballot_sync(kAllLanes, holds) != 0;
    return all(holds ? 1u : 0u, [](unsigned a, unsigned b) { return a | b; }) != 0;
  }

  // op(value of every lane), in every lane. All threads of the block must call.
  template <class V, class Op>
  __device__ static V all(V value, Op op) {
    if constexpr (kLanes <= kWarpLanes) {
      return reduceLanes<kLanes>(value, op);
    } else {
      value = reduceLanes<kWarpLanes>(value, op);
      __shared__ V ofWarp[kBlockThreads / kWarpLanes];
      if (threadIdx.x % kWarpLanes == 0) ofWarp[threadIdx.x / kWarpLanes] = value;
      __syncthreads();
      value = ofWarp[0];
      COLLAPSAR_UNROLLED
      for (int warp = 1; warp < kBlockThreads / kWarpLanes; warp++) value = op(value, ofWarp[warp]);
      __syncthreads();
      return value;
    }
  }
};

// Order of scores with NaN above all, as unsigned integers: that of argmax and of the top columns.
__device__ __forceinline__ uint32_t orderOf(float x) {
  if (x != x) return 0xffffffffu;
  const uint32_t bits = bitsOfFloat(x + 0.0f);  // -0 becomes 0
  return bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ uint64_t orderOf(double x) {
  if (x != x) return ~uint64_t{0};
  const uint64_t bits = bitsOfDouble(x + 0.0);
  return bits ^ (bits >> 63 != 0 ? ~uint64_t{0} : uint64_t{1} << 63);
}

template <class C>
__device__ __forceinline__ bool isBetter(C a, C b) {  // as values; NaN is best
  return b == b && (a != a || a > b);
}

template <class C>
struct BetterOf {
  __device__ C operator()(C a, C b) const { return isBetter(b, a) ? b : a; }
};

// Brings the sums of all lanes to the highest reference among them and adds them up; the same result in every lane.
template <int kLanes, bool kWeighted>
__device__ __forceinline__ WideSums combine(const Sums<float>& mine, const Scale<float>& scale) {
  using Group = ThreadGroup<kLanes>;
  struct Pair {
    double s, t;
  };
  const auto add = [](Pair a, Pair b) { return Pair{a.s + b.s, a.t + b.t}; };
  const bool based = Group::anyInReach(isBased(mine));
  WideSums wide = widened(mine);
  struct Reference {
    double base, power, height;
  } top{0.0, 0.0, 0.0};
  if (!based) {
    const float power = Group::all(mine.power, [](float a, float b) { return fmaxf(a, b); });
    top.power = static_cast<double>(power);
  } else {
    const double height = isEmpty(wide) ? -kHugeDouble : wide.base * scale.exact() + wide.power;
    top = Group::all(Reference{wide.base, wide.power, height},
                     [](Reference a, Reference b) { return b.height > a.height ? b : a; });
  }
  if (isEmpty(wide)) {
    wide.s = wide.t = 0.0;
  } else {
    const double fall = riseBetween(wide.base, wide.power, top.base, top.power, scale.exact());
    if (fall != 0.0) scaleSums(wide.s, wide.t, fall);
  }
  if (kWeighted) {
    const Pair sum = Group::all(Pair{wide.s, wide.t}, add);
    return {top.base, top.power, sum.s, sum.t};
  }
  return {top.base, top.power, Group::all(wide.s, [](double a, double b) { return a + b; }), 0.0};
}

template <int kLanes, bool kWeighted>
__device__ __forceinline__ WideSums combine(Sums<double> mine, const Scale<double>& scale) {
  using Group = ThreadGroup<kLanes>;
  const double top = Group::all(mine.base, [](double a, double b) { return fmax(a, b); });
  raise(mine, top, scale);
  struct Parts {
    double s, sLow, t, tLow;
  };
  const Parts sum = Group::all(Parts{mine.s, mine.sLow, mine.t, mine.tLow}, [](Parts a, Parts b) {
    addKeepingLow(a.s, a.sLow, b.s);
    a.sLow += b.sLow;
    if (kWeighted) {
      addKeepingLow(a.t, a.tLow, b.t);
      a.tLow += b.tLow;
    }
    return a;
  });
  if (top == -kHugeDouble) return noWideSums();
  return {top, 0.0, sum.s + sum.sLow, sum.t + sum.tLow};
}

}  // namespace collapsar::cuda
