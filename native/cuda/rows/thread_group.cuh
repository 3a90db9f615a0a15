// The threads that share one row: 1 to 32 lanes of a warp, or a block of 256. Reductions have a fixed order
// (butterflies in a warp, then warps in turn), so that every thread has the same bits, run after run.
#pragma once

#include "cuda/kernel_launch.h"
#include "exponential_sums.h"

namespace collapsar::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;

template <class V>
__device__ __forceinline__ V shflXor(V value, int laneMask) {
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
  for (int step = kLanes / 2; step > 0; step /= 2) value = op(value, shflXor(value, step));
  return value;
}

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
// The score of an order.
__device__ __forceinline__ float scoreOf(uint32_t order) {
  return floatOfBits(order ^ (order >> 31 != 0 ? 0x80000000u : 0xffffffffu));
}
__device__ __forceinline__ double scoreOf(uint64_t order) {
  return doubleOfBits(order ^ (order >> 63 != 0 ? uint64_t{1} << 63 : ~uint64_t{0}));
}

constexpr int kNoColumn = 0x7fffffff;

// A column in the order of argmax and of the top columns: by falling score, NaN first; ties by rising column.
template <class Order>
struct Ranked {
  Order order;  // 0: none
  int32_t column;
};

template <class Order>
__device__ __forceinline__ bool isBefore(Ranked<Order> a, Ranked<Order> b) {
  return a.order > b.order || (a.order == b.order && a.column < b.column);
}
template <class Order>
struct RankedFirst {
  __device__ Ranked<Order> operator()(Ranked<Order> a, Ranked<Order> b) const { return isBefore(b, a) ? b : a; }
};

template <class C>
__device__ __forceinline__ bool isBetter(C a, C b) {  // as values; NaN is best
  return b == b && (a != a || a > b);
}

template <class C>
struct BetterOf {
  __device__ C operator()(C a, C b) const { return isBetter(b, a) ? b : a; }
};

// The largest of a warp in one instruction; 5 exchanges take ten and wait five times.
__device__ __forceinline__ uint32_t largestOfWarp(uint32_t value) { return __reduce_max_sync(kAllLanes, value); }
__device__ __forceinline__ uint64_t largestOfWarp(uint64_t value) {
  const uint32_t high = static_cast<uint32_t>(value >> 32), highest = largestOfWarp(high);
  const uint32_t low = largestOfWarp(high == highest ? static_cast<uint32_t>(value) : 0u);
  return static_cast<uint64_t>(highest) << 32 | low;
}

template <int kLanes>
struct ThreadGroup {
  static_assert(kLanes <= kWarpLanes || kLanes == kBlockThreads, "lanes of a warp, or the block");
  static constexpr int kGroups = kBlockThreads / kLanes;  // of a block

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int index() { return static_cast<int>(threadIdx.x) / kLanes; }  // in the block

  // Whether it holds in any lane of the group, or of its warp: the same for all threads that exchange values.
  __device__ static bool anySync(bool holds) {
    if constexpr (kLanes == 1) return holds;
    if constexpr (kLanes <= kWarpLanes) return __ballot_sync(kAllLanes, holds) != 0;
    return allReduce(holds ? 1u : 0u, [](unsigned a, unsigned b) { return a | b; }) != 0;
  }

  // op(value of every lane), in every lane. All threads of the block must call.
  template <class V, class Op>
  __device__ static V allReduce(V value, Op op) {
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

  __device__ static int sum(int value) {
    if constexpr (kLanes == kWarpLanes) return __reduce_add_sync(kAllLanes, value);
    return allReduce(value, [](int a, int b) { return a + b; });
  }

  __device__ static int least(int value) {
    if constexpr (kLanes == kWarpLanes) return __reduce_min_sync(kAllLanes, value);
    return allReduce(value, [](int a, int b) { return a < b ? a : b; });
  }

  // The best as isBetter has it.
  template <class C>
  __device__ static C best(C value) {
    if constexpr (kLanes == kWarpLanes) return scoreOf(largestOfWarp(orderOf(value)));
    return allReduce(value, BetterOf<C>{});
  }
};

// Brings the sums of all lanes to the highest reference among them and adds them up; the same result in every lane.
template <int kLanes, bool kWeighted>
__device__ __forceinline__ WideSums combine(const Sums<float>& mine, const Scale<float>& scale) {
  using Group = ThreadGroup<kLanes>;
  struct Pair {
    double s, t;
  };
  const auto add = [](Pair a, Pair b) { return Pair{a.s + b.s, a.t + b.t}; };
  struct Reference {
    double base, power, height;
  } top{0.0, 0.0, 0.0};
  Pair sum{mine.s, mine.t};
  if (!Group::anySync(isBased(mine))) {
    const float power = Group::allReduce(mine.power, [](float a, float b) { return fmaxf(a, b); });
    scaleSumsByPower(sum.s, sum.t, mine.power - power);  // of none, too, which stay 0
    top.power = static_cast<double>(power);
  } else {
    const WideSums wide = widened(mine);
    const double height = isEmpty(wide) ? -kHugeDouble : wide.base * scale.exact() + wide.power;
    top = Group::allReduce(Reference{wide.base, wide.power, height},
                           [](Reference a, Reference b) { return b.height > a.height ? b : a; });
    if (!isEmpty(wide)) {
      scaleSums(sum.s, sum.t, riseBetween(wide.base, wide.power, top.base, top.power, scale.exact()));
    }
  }
  if (kWeighted) {
    sum = Group::allReduce(sum, add);
    return {top.base, top.power, sum.s, sum.t};
  }
  return {top.base, top.power, Group::allReduce(sum.s, [](double a, double b) { return a + b; }), 0.0};
}

template <int kLanes, bool kWeighted>
__device__ __forceinline__ WideSums combine(Sums<double> mine, const Scale<double>& scale) {
  using Group = ThreadGroup<kLanes>;
  const double top = Group::allReduce(mine.base, [](double a, double b) { return fmax(a, b); });
  rescale(mine, top, scale);
  struct Parts {
    double s, sLow, t, tLow;
  };
  const Parts sum = Group::allReduce(Parts{mine.s, mine.sLow, mine.t, mine.tLow}, [](Parts a, Parts b) {
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
