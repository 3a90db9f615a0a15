// The best k <= 8 columns of a row, by falling score (NaN first), ties by rising column: a second look at the row,
// which the caches still have, at those of its chunks alone that reach the k-th best of the lanes' maxima.
#pragma once

#include "row_vectors.cuh"
#include "score_rows.h"
#include "thread_group.cuh"

namespace collapsar::cuda {

constexpr int kNoColumn = 0x7fffffff;

template <class Order>
struct Ranked {
  Order order;  // 0: none
  int32_t column;
};

template <class Order>
struct RankedFirst {
  __device__ Ranked<Order> operator()(Ranked<Order> a, Ranked<Order> b) const {
    return b.order > a.order || (b.order == a.order && b.column < a.column) ? b : a;
  }
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

  __device__ void dropFirst() {
    COLLAPSAR_UNROLLED
    for (int i = 0; i + 1 < kMostTop; i++) {
      order[i] = order[i + 1];
      column[i] = column[i + 1];
    }
    order[kMostTop - 1] = 0;
    column[kMostTop - 1] = kNoColumn;
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

// The k-th largest maximum of a warp's lanes: at least k columns reach it.
template <class Order>
__device__ Order kthOfLanes(Order mine, int k) {
  Order kth = 0;
  for (int i = 0; i < k; i++) {
    kth = reduceLanes<kWarpLanes>(mine, [](Order a, Order b) { return a > b ? a : b; });
    const unsigned holders = __ballot_sync(kAllLanes, mine == kth);
    if (static_cast<int>(threadIdx.x % kWarpLanes) == __ffs(static_cast<int>(holders)) - 1) mine = 0;
  }
  return kth;
}

// `best`: the lane's maximum. Every thread of the block must call; the first column is returned to every lane of the
// row's first warp.
template <class T, int kLanes>
__device__ int topColumns(const RowVectors<T>& columns, int lane, typename Element<T>::Compute best, int k,
                          const TopPlace& place) {
  using Order = decltype(orderOf(best));
  TopList<Order> list;
  const Order least = kLanes >= kWarpLanes ? kthOfLanes(orderOf(best), k) : Order{1};
  const int chunks = columns.template chunks<kLanes>();
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    if (kLanes >= kWarpLanes) {
      Vector v[kChunkVectors];
      columns.template load<kLanes, true>(chunk, lane, v);
      if (orderOf(largestOf<T>(v)) < least) continue;
    }
    COLLAPSAR_ROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      const int vector = RowVectors<T>::template vectorOf<kLanes>(chunk, j, lane);
      if (vector >= columns.vectors()) break;
      const int64_t first = columns.columnOf(vector);
      COLLAPSAR_ROLLED
      for (int e = 0; e < Element<T>::kPerVector; e++) {
        const int64_t column = first + e;
        if (column < columns.begin || column >= columns.end) continue;
        const Order order = orderOf(floatOf(columns.row[column]));
        if (order >= least) list.insert(order, static_cast<int32_t>(column));
      }
    }
  }

  constexpr int kMerged = kLanes < kWarpLanes ? kLanes : kWarpLanes;
  int firstColumn = 0;
  if constexpr (kLanes <= kWarpLanes) {
    COLLAPSAR_ROLLED
    for (int i = 0; i < k; i++) {
      const Ranked<Order> mine{list.order[0], list.column[0]};
      const Ranked<Order> first = reduceLanes<kMerged>(mine, RankedFirst<Order>{});
      if (mine.column == first.column) list.dropFirst();
      if (i == 0) firstColumn = first.column;
      if (lane == 0) place.put(i, first);
    }
  } else {
    constexpr int kWarps = kBlockThreads / kWarpLanes;
    __shared__ Ranked<Order> ofWarp[kWarps][kMostTop];
    COLLAPSAR_ROLLED
    for (int i = 0; i < k; i++) {
      const Ranked<Order> mine{list.order[0], list.column[0]};
      const Ranked<Order> first = reduceLanes<kMerged>(mine, RankedFirst<Order>{});
      if (mine.column == first.column) list.dropFirst();
      if (lane % kWarpLanes == 0) ofWarp[lane / kWarpLanes][i] = first;
    }
    __syncthreads();
    if (lane < kWarpLanes) {
      int taken = 0;
      COLLAPSAR_ROLLED
      for (int i = 0; i < k; i++) {
        Ranked<Order> mine{0, kNoColumn};
        if (lane < kWarps && taken < k) mine = ofWarp[lane][taken];
        const Ranked<Order> first = reduceLanes<kWarpLanes>(mine, RankedFirst<Order>{});
        if (mine.column == first.column) taken++;
        if (i == 0) firstColumn = first.column;
        if (lane == 0) place.put(i, first);
      }
    }
    __syncthreads();
  }
  return firstColumn;
}

}  // namespace collapsar::cuda
