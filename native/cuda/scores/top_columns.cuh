// The best k <= 8 columns of a row, by falling score (NaN first), ties by rising column.
//
// Warps take a second look at a few vectors alone. The first look leaves in each lane its largest score, the chunk that
// holds it and the largest score of its other chunks. At least k columns reach the k-th largest of the lanes' maxima,
// so only the lanes that do reload their chunk, all at once: each has mostly one column among the best. Where a lane
// may have more, the warp looks through its vectors for the next, once that column's turn has come. Of 4096 float32
// scores the best 8 take about 560 instructions a row; going through the chunks again took 4290.
#pragma once

#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vectors.cuh"
#include "score_rows.h"

namespace collapsar::cuda {

constexpr int kNoColumn = 0x7fffffff;

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

template <class Order>
struct TopList {
  Order order[kMostTop];
  int32_t column[kMostTop];

  __device__ TopList() {
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kMostTop; i++) {
      order[i] = 0;
      column[i] = kNoColumn;
    }
  }

  // Columns come rising, so that equals stay behind.
  __device__ void insert(Order x, int32_t at) {
    if (!(x > order[kMostTop - 1])) return;
    COLLAPSAR_UNROLLED
    for (int i = kMostTop - 1; i > 0; i--) {
      const bool moves = x > order[i - 1], lands = x > order[i];
      column[i] = moves ? column[i - 1] : lands ? at : column[i];
      order[i] = moves ? order[i - 1] : lands ? x : order[i];
    }
    if (x > order[0]) {
      order[0] = x;
      column[0] = at;
    }
  }
};

// Where a row's, or a piece's, best columns go. `orders` may be null.
struct TopPlace {
  int32_t* columns;
  uint64_t* orders;
  bool written;

  template <class Order>
  __device__ void put(int i, Ranked<Order> ranked) const {
    if (!written) return;
    columns[i] = ranked.column;
    if (orders != nullptr) orders[i] = static_cast<uint64_t>(ranked.order);
  }
};

// What the first look at a row leaves in a lane.
template <class C>
struct LaneMaximum {
  C best;         // NaN above all
  C otherChunks;  // the largest outside of `chunk`
  int chunk;      // the first that holds `best`; -1 if that is -inf

  __device__ __forceinline__ void add(C largest, int ofChunk) {
    const bool better = isBetter(largest, best);
    otherChunks = largerOrNan(otherChunks, better ? best : largest);
    if (!better) return;
    best = largest;
    chunk = ofChunk;
  }
};

template <class C>
__device__ __forceinline__ LaneMaximum<C> noMaximum() {
  return {-infinity<C>(), -infinity<C>(), -1};
}

template <class Order>
__device__ __forceinline__ Ranked<Order> firstOfWarp(Ranked<Order> mine) {
  const Order order = largestOfWarp(mine.order);
  return {order, smallestOfWarp(mine.order == order ? mine.column : kNoColumn)};
}

// The k-th largest maximum of a warp's lanes: at least k columns reach it.
template <class C>
__device__ C kthOfLanes(C best, int k) {
  auto mine = orderOf(best), kth = mine;
  COLLAPSAR_ROLLED
  for (int i = 0; i < k; i++) {
    kth = largestOfWarp(mine);
    const unsigned holders = __ballot_sync(kAllLanes, mine == kth);
    if (static_cast<int>(threadIdx.x % kWarpLanes) == __ffs(static_cast<int>(holders)) - 1) mine = 0;
  }
  return scoreOf(kth);
}

// A lane's best column that is not taken yet, and the vectors [begin, end) of the row where it may have others to take.
template <class Order>
struct Head {
  Ranked<Order> first;
  int begin, end;
};

template <class T>
using OrderOf = decltype(orderOf(typename Element<T>::Compute{}));

// Of a lane that does not reach `least`: none. NaN as `least` is reached by all, which costs time alone.
template <class T, int kLanes>
__device__ Head<OrderOf<T>> headOf(const RowVectors<T>& columns, int lane,
                                   const LaneMaximum<typename Element<T>::Compute>& mine,
                                   typename Element<T>::Compute least) {
  constexpr int kPerVector = Element<T>::kPerVector;
  Head<OrderOf<T>> head{{0, kNoColumn}, 0, 0};
  const bool onlyInfinite = mine.chunk < 0;
  if (mine.best < least || (onlyInfinite && lane >= columns.vectors())) return head;
  head.first.order = orderOf(mine.best);
  if (onlyInfinite || !(mine.otherChunks < least)) head.end = columns.vectors();
  if (onlyInfinite) {
    const int64_t column = columns.columnOf(lane);
    head.first.column = column < columns.begin ? columns.begin : static_cast<int32_t>(column);
    return head;
  }
  Vector v[kChunkVectors];
  columns.template load<kLanes, true>(mine.chunk, lane, v);
  int at = 0, reaching = 0;
  COLLAPSAR_UNROLLED
  for (int j = kChunkVectors - 1; j >= 0; j--) {
    typename Element<T>::Compute x[kPerVector];
    unpack<T>(v[j], x);
    COLLAPSAR_UNROLLED
    for (int e = kPerVector - 1; e >= 0; e--) {
      if (x[e] == mine.best || x[e] != x[e]) at = j * kPerVector + e;
      if (!(x[e] < least)) reaching++;
    }
  }
  const int vector = RowVectors<T>::template vectorOf<kLanes>(mine.chunk, at / kPerVector, lane);
  head.first.column = static_cast<int32_t>(columns.columnOf(vector) + at % kPerVector);
  if (head.end == 0 && reaching > 1) {
    head.begin = RowVectors<T>::template vectorOf<kLanes>(mine.chunk, 0, 0);
    head.end = RowVectors<T>::template vectorOf<kLanes>(mine.chunk + 1, 0, 0);
  }
  return head;
}

// The best behind `last` of what lane `owner` has in the vectors [begin, end), which start a chunk: an element a lane.
template <class T, int kLanes>
__device__ Ranked<OrderOf<T>> nextOf(const RowVectors<T>& columns, int owner, int begin, int end,
                                     Ranked<OrderOf<T>> last) {
  constexpr int kPerVector = Element<T>::kPerVector;
  const int warpLane = static_cast<int>(threadIdx.x % kWarpLanes);
  Ranked<OrderOf<T>> next{0, kNoColumn};
  COLLAPSAR_ROLLED_BY_4
  for (int vector = begin + owner + warpLane / kPerVector * kLanes; vector < end;
       vector += kWarpLanes / kPerVector * kLanes) {
    const int64_t column = columns.columnOf(vector) + warpLane % kPerVector;
    if (column < columns.begin || column >= columns.end) continue;
    const Ranked<OrderOf<T>> x{orderOf(floatOf(columns.row[column])), static_cast<int32_t>(column)};
    if (isBefore(last, x) && isBefore(x, next)) next = x;
  }
  return firstOfWarp(next);
}

// The best of what the warp's lanes have, the i-th best in lane i < k.
template <class T, int kLanes>
__device__ Ranked<OrderOf<T>> topOfWarp(const RowVectors<T>& columns, int lane,
                                        const LaneMaximum<typename Element<T>::Compute>& mine, int k) {
  const int warpLane = lane % kWarpLanes;
  Head<OrderOf<T>> head = headOf<T, kLanes>(columns, lane, mine, kthOfLanes(mine.best, k));
  Ranked<OrderOf<T>> ranked{0, kNoColumn};
  COLLAPSAR_ROLLED
  for (int i = 0; i < k; i++) {
    const Ranked<OrderOf<T>> first = firstOfWarp(head.first);
    if (warpLane == i) ranked = first;
    const bool taken = head.first.column == first.column;
    if (taken) head.first = {0, kNoColumn};
    const unsigned hasMore = __ballot_sync(kAllLanes, taken && head.begin < head.end);
    if (hasMore == 0 || i + 1 == k) continue;
    const int owner = __ffs(static_cast<int>(hasMore)) - 1;
    const int begin = __shfl_sync(kAllLanes, head.begin, owner), end = __shfl_sync(kAllLanes, head.end, owner);
    const Ranked<OrderOf<T>> next = nextOf<T, kLanes>(columns, lane - warpLane + owner, begin, end, first);
    if (warpLane == owner) head.first = next;
  }
  return ranked;
}

// The best of all warps of a block, the i-th best in lane i < k of the first.
template <class Order>
__device__ Ranked<Order> topOfBlock(Ranked<Order> ranked, int k) {
  constexpr int kWarps = kBlockThreads / kWarpLanes;
  __shared__ Ranked<Order> ofWarp[kWarps][kMostTop];
  const int warpLane = static_cast<int>(threadIdx.x % kWarpLanes), warp = static_cast<int>(threadIdx.x / kWarpLanes);
  if (warpLane < k) ofWarp[warp][warpLane] = ranked;
  __syncthreads();
  if (warp == 0) {
    int taken = 0;
    COLLAPSAR_ROLLED
    for (int i = 0; i < k; i++) {
      Ranked<Order> mine{0, kNoColumn};
      if (warpLane < kWarps) mine = ofWarp[warpLane][taken];
      const Ranked<Order> first = firstOfWarp(mine);
      if (mine.column == first.column) taken++;
      if (warpLane == i) ranked = first;
    }
  }
  return ranked;
}

// --- a thread a row: it goes through its columns again

template <class T>
__device__ Ranked<OrderOf<T>> topColumnsOfOne(const RowVectors<T>& columns,
                                              const LaneMaximum<typename Element<T>::Compute>& mine, int k,
                                              const TopPlace& place) {
  if (k == 1) {
    const int column = mine.chunk < 0 ? columns.begin : columns.template firstIn<1>(mine.chunk, 0, mine.best);
    const Ranked<OrderOf<T>> first{orderOf(mine.best), column};
    place.put(0, first);
    return first;
  }
  TopList<OrderOf<T>> list;
  COLLAPSAR_ROLLED
  for (int column = columns.begin; column < columns.end; column++) {
    list.insert(orderOf(floatOf(columns.row[column])), column);
  }
  COLLAPSAR_UNROLLED
  for (int i = 0; i < kMostTop; i++) {
    if (i < k) place.put(i, Ranked<OrderOf<T>>{list.order[i], list.column[i]});
  }
  return {list.order[0], list.column[0]};
}

// k >= 1. Every thread of the block must call; the first column is returned to the row's lane 0.
template <class T, int kLanes>
__device__ Ranked<OrderOf<T>> topColumns(const RowVectors<T>& columns, int lane,
                                         const LaneMaximum<typename Element<T>::Compute>& mine, int k,
                                         const TopPlace& place) {
  if constexpr (kLanes == 1) {
    return topColumnsOfOne<T>(columns, mine, k, place);
  } else {
    Ranked<OrderOf<T>> ranked = topOfWarp<T, kLanes>(columns, lane, mine, k);
    if constexpr (kLanes > kWarpLanes) ranked = topOfBlock(ranked, k);
    if (lane < k) place.put(lane, ranked);
    return ranked;
  }
}

}  // namespace collapsar::cuda
