// The best k <= 8 columns of a row that a few threads hold, by falling score (NaN first), ties by rising column.
//
// The k-th largest of the maxima of the row's 16 parts is a bound that at least k columns reach, and few more: those
// are gathered in shared memory, and each one's place is how many go before it.
#pragma once

#include "cuda/rows/rank_counts.h"
#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vectors.cuh"
#include "top_columns.cuh"

namespace collapsar::cuda {

// Columns of one row to choose the best of; where more of them reach the bound, they are found one after the other. Not
// 64: of float32 by two lanes, shared memory of 9.0 then has room for four blocks, not five.
constexpr int kMostCandidates = 60;
constexpr int kReadAtOnce = 4;
// A row in so many parts.
constexpr int kParts = 16;
template <int kLanes>
constexpr int kPartsOfLane = kLanes < kParts ? kParts / kLanes : 1;
// Behind the parts, more lanes than these leave theirs again.
template <int kLanes>
constexpr int kPartPlaces = kLanes < kParts ? kParts : kLanes;

template <class C>
struct Candidates {
  alignas(16) C score[kMostCandidates + kReadAtOnce];
  int32_t column[kMostCandidates + kReadAtOnce];
};

// The k-th largest of the maxima of a row's parts, of which every lane has some.
template <int kLanes, int kLaneParts, class C>
__device__ __forceinline__ C kthOfParts(C (&mine)[kLaneParts], int k, int lane, C (&parts)[kPartPlaces<kLanes>]) {
  if constexpr (kLanes > kParts) {
    mine[0] = largerOrNan(mine[0], exchanged(mine[0], kParts));
  }
  COLLAPSAR_UNROLLED
  for (int p = 0; p < kLaneParts; p++) parts[p * kLanes + lane] = mine[p];
  __syncwarp();
  C kth = infinity<C>();
  COLLAPSAR_UNROLLED
  for (int p = 0; p < kLaneParts; p++) {
    decltype(oneIfAbove(C{}, C{})) above = 0;
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kParts; i++) above += oneIfAbove(parts[i], mine[p]);
    if (above < static_cast<decltype(above)>(k) && mine[p] < kth) kth = mine[p];
  }
  return reduceLanes<kLanes>(kth, [](C a, C b) { return a < b ? a : b; });
}

// The lane's elements that reach a bound.
struct Reaching {
  uint32_t bits;
  bool undefined;  // there is a NaN in the row
};

// Puts the lane's elements beside those of the row's other lanes, as far as there is room: how many there are in all. A
// NaN is noted.
template <class Elements, int kLanes, class T, class C>
__device__ __forceinline__ int gather(const RowVectors<T>& columns, int lane, Reaching& reaching,
                                      Candidates<C>& candidates) {
  uint32_t bits = reaching.bits;
  int at = 0, total = __popc(bits);
  COLLAPSAR_UNROLLED
  for (int step = 1; step < kLanes; step *= 2) {
    const int other = exchanged(total, step);
    if ((lane & step) != 0) at += other;
    total += other;
  }
  COLLAPSAR_ROLLED
  for (; bits != 0 && at < kMostCandidates; bits &= bits - 1, at++) {
    const int column = Elements::columnOf(columns, lane, __ffs(static_cast<int>(bits)) - 1);
    const C x = floatOf(columns.row[column]);
    reaching.undefined = reaching.undefined || x != x;
    candidates.score[at] = x;
    candidates.column[at] = column;
  }
  return total;
}

// How many of the best columns are looked for: the first is the argmax.
__device__ __forceinline__ int soughtOf(int topK) { return topK > 1 ? topK : 1; }

// Where the best columns of a row go.
struct BestColumns {
  int32_t* argmax;
  int32_t* top;  // null, or for k columns
  int32_t k;
  bool real;  // else another group has the row

  __device__ void put(int rank, int32_t column) const {
    if (!real) return;
    if (rank == 0) *argmax = column;
    if (rank < k) top[rank] = column;
  }
};

// Counts a if the best columns have it before b: no branches, for most often the scores differ, and 4 instructions,
// where the compiler makes 5.
__device__ __forceinline__ void countIfBefore(float a, int32_t columnOfA, float b, int32_t columnOfB, float& count) {
#if defined(__CUDA_ARCH__)
  asm("{\n\t.reg .pred p;\n\t"
      "setp.lt.s32 p, %2, %4;\n\t"
      "setp.eq.and.f32 p, %1, %3, p;\n\t"
      "setp.gt.or.f32 p, %1, %3, p;\n\t"
      "@p add.f32 %0, %0, 0f3f800000;\n\t}"
      : "+f"(count)
      : "f"(a), "r"(columnOfA), "f"(b), "r"(columnOfB));
#else
  if (a > b || (a == b && columnOfA < columnOfB)) count += 1.0f;
#endif
}
__device__ __forceinline__ void countIfBefore(double a, int32_t columnOfA, double b, int32_t columnOfB, float& count) {
  const bool above = a > b, equal = a == b, lower = columnOfA < columnOfB;
  count += above | (equal & lower) ? 1.0f : 0.0f;
}

// Of candidates without NaN, each one's place is the number of those before it. The row's threads take 16 at a time,
// which most often are all: of 256 random columns 11.6 are candidates for 8 places.
template <int kLanes, class C>
__device__ __forceinline__ void placeCandidates(Candidates<C>& from, int count, int lane, const BestColumns& best) {
  constexpr int kEach = kPartsOfLane<kLanes>;
  COLLAPSAR_UNROLLED
  for (int i = lane; i < kReadAtOnce; i += kLanes) {
    from.score[count + i] = -infinity<C>();
    from.column[count + i] = kNoColumn;
  }
  __syncwarp();
  COLLAPSAR_ROLLED
  for (int first = lane; first < count; first += kEach * kLanes) {
    C score[kEach];
    int32_t column[kEach];
    float rank[kEach];
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kEach; i++) {
      const int at = first + i * kLanes < count ? first + i * kLanes : first;
      score[i] = from.score[at];
      column[i] = from.column[at];
      rank[i] = 0.0f;
    }
    COLLAPSAR_ROLLED
    for (int other = 0; other < count; other += kReadAtOnce) {
      COLLAPSAR_UNROLLED
      for (int n = 0; n < kReadAtOnce; n++) {
        const C x = from.score[other + n];
        const int32_t at = from.column[other + n];
        COLLAPSAR_UNROLLED
        for (int i = 0; i < kEach; i++) countIfBefore(x, at, score[i], column[i], rank[i]);
      }
    }
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kEach; i++) best.put(static_cast<int>(rank[i]), column[i]);
  }
}

// The best columns of any row: each is the first after the one before.
template <int kLanes, class T>
__device__ void placeOneByOne(const T* row, int columns, int lane, const BestColumns& best) {
  using Order = decltype(orderOf(floatOf(T{})));
  Ranked<Order> last{~Order{0}, -1};
  for (int i = 0; i < soughtOf(best.k); i++) {
    Ranked<Order> first{0, kNoColumn};
    COLLAPSAR_ROLLED
    for (int column = lane; column < columns; column += kLanes) {
      const Ranked<Order> x{orderOf(floatOf(row[column])), column};
      const bool isAfter = x.order < last.order || (x.order == last.order && column > last.column);
      if (isAfter) first = RankedFirst<Order>{}(first, x);
    }
    last = reduceLanes<kLanes>(first, RankedFirst<Order>{});
    if (lane == 0) best.put(i, last.column);
  }
}

template <class Elements, int kLanes, class T, class C>
__device__ __forceinline__ void placeBest(const RowVectors<T>& columns, int lane, Reaching reaching,
                                          Candidates<C>& candidates, const BestColumns& best) {
  const int count = gather<Elements, kLanes>(columns, lane, reaching, candidates);
  if (__ballot_sync(kAllLanes, reaching.undefined || count > kMostCandidates) != 0) {
    __syncwarp();  // before the next turn's parts come where this one's were read
    placeOneByOne<kLanes>(columns.row, columns.end, lane, best);
  } else {
    placeCandidates<kLanes>(candidates, count, lane, best);
  }
}

}  // namespace collapsar::cuda
