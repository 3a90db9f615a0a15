// The best columns of rows of scores: by falling score, NaN first; ties by rising column. Every element is read once,
// 16 bytes a thread at a time, and takes one instruction, a maximum. What a lane read at a time is a chunk; a chunk's
// maximum is an element, so the k-th largest of some chunks' maxima is no more than the k-th best element. Only the few
// chunks that reach it are read again, from the cache, and their elements put in order one by one.
#include "top_columns.h"

#include "cuda/kernel_launch.h"
#include "cuda/rows/with_type.h"
#include "score_row_ends.cuh"

namespace collapsar::cuda {

namespace {

// The maxima of a lane's chunks are kept in so many places: chunk n in place n % kPlaces.
constexpr int kPlaces = 8;
// Threads that share a row of up to kShortBytes, and a longer one. No fewer than there are top columns.
constexpr int kShortLanes = 8;
constexpr int64_t kShortBytes = int64_t{2} * kShortLanes * kChunkVectors * kVectorBytes;
static_assert(kShortLanes >= COLLAPSAR_CUDA_MAX_TOP_K, "a lane holds one of the best columns");
// A warp takes no more of a row than this: a lane's place then has two chunks at most.
constexpr int64_t kPieceBytes = int64_t{2} * kPlaces * kWarpLanes * kChunkVectors * kVectorBytes;

__device__ __forceinline__ uint32_t fromLane(uint32_t value, int lane) {
  return static_cast<uint32_t>(__shfl_sync(kAllLanes, static_cast<int>(value), lane));
}
__device__ __forceinline__ uint64_t fromLane(uint64_t value, int lane) {
  const uint32_t high = fromLane(static_cast<uint32_t>(value >> 32), lane);
  return static_cast<uint64_t>(high) << 32 | fromLane(static_cast<uint32_t>(value), lane);
}
template <class Order>
__device__ __forceinline__ Ranked<Order> fromLane(const Ranked<Order>& value, int lane) {
  return {fromLane(value.order, lane), static_cast<int32_t>(fromLane(static_cast<uint32_t>(value.column), lane))};
}

// The largest of a group of lanes.
template <int kLanes, class Order>
__device__ __forceinline__ Order largestOfLanes(Order value) {
  if constexpr (kLanes == kWarpLanes) return largestOfWarp(value);
  return reduceLanes<kLanes>(value, [](Order a, Order b) { return a > b ? a : b; });
}

// The best columns that a group has met: lane i holds number i. All lanes of the warp call each function together.
template <int kLanes, class Order>
struct BestColumns {
  Ranked<Order> mine{0, kNoColumn};

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int firstLane() { return static_cast<int>(threadIdx.x) % kWarpLanes - lane(); }
  // Of a warp's ballot the bits of the group.
  __device__ static uint32_t ofGroup(uint32_t ballot) {
    return kLanes == kWarpLanes ? ballot : ballot >> firstLane() & ((1u << kLanes % kWarpLanes) - 1);
  }
  __device__ __forceinline__ Ranked<Order> number(int i) const { return fromLane(mine, firstLane() + i); }

  // One column of each lane, or none.
  __device__ __forceinline__ void add(const Ranked<Order>& offered) {
    uint32_t waiting = ofGroup(__ballot_sync(kAllLanes, offered.order != 0));
    for (; __ballot_sync(kAllLanes, waiting != 0) != 0; waiting &= waiting - 1) {
      // A group with none left takes that of its first lane once more, as none.
      Ranked<Order> next = fromLane(offered, firstLane() + (waiting != 0 ? __ffs(static_cast<int>(waiting)) - 1 : 0));
      if (waiting == 0) next = {0, kNoColumn};
      const int place = __popc(ofGroup(__ballot_sync(kAllLanes, isBefore(mine, next))));
      const Ranked<Order> above = fromLane(mine, firstLane() + (lane() > 0 ? lane() - 1 : 0));
      if (waiting != 0 && lane() >= place) mine = lane() == place ? next : above;
    }
  }
};

// No more than the k-th best element's order: the k-th largest of the lanes' two largest, or 0 if those are fewer.
template <int kLanes, class Order>
__device__ __forceinline__ Order leastOfBest(Order largest, Order second, int k) {
  Order least = 0;
  int found = 0;
  COLLAPSAR_ROLLED
  for (int i = 0; i < k; i++) {
    const Order next = largestOfLanes<kLanes>(largest);
    const bool isMine = largest == next;
    if (found < k) least = next;
    found += __popc(BestColumns<kLanes, Order>::ofGroup(__ballot_sync(kAllLanes, isMine)));
    if (isMine) {
      largest = second;
      second = 0;
    }
  }
  return least;
}

template <class T, int kLanes>
struct RowColumns {
  using C = typename Element<T>::Compute;
  using Order = OrderOf<T>;
  static constexpr int kPerVector = Element<T>::kPerVector;

  const RowVectors<T> columns;
  const int lane;

  // Which elements of the lane's chunk are not below `least`: NaN is not.
  __device__ __forceinline__ uint32_t reaching(int chunk, C least) const {
    Vector v[kChunkVectors];
    columns.template load<kLanes, true>(chunk, lane, v);
    uint32_t bits = 0;
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      C x[kPerVector];
      unpack<T>(v[j], x);
      COLLAPSAR_UNROLLED
      for (int e = 0; e < kPerVector; e++) bits |= x[e] < least ? 0u : 1u << (j * kPerVector + e);
    }
    return bits;
  }
  // None where the element lies outside of the row.
  __device__ __forceinline__ Ranked<Order> ranked(int chunk, int element) const {
    const int vector = RowVectors<T>::template vectorOf<kLanes>(chunk, element / kPerVector, lane);
    const int64_t column = columns.columnOf(vector) + element % kPerVector;
    if (column < columns.begin || column >= columns.end) return {0, kNoColumn};
    return {orderOf(floatOf(columns.row[column])), static_cast<int32_t>(column)};
  }
};

// The best k of columns [begin, end) of a row. `places`: the thread's own begin there, kBlockThreads apart.
template <class T, int kLanes>
__device__ __forceinline__ BestColumns<kLanes, OrderOf<T>> bestOf(const RowVectors<T>& columns, int k,
                                                                  typename Element<T>::Compute* places) {
  using C = typename Element<T>::Compute;
  using Order = OrderOf<T>;
  const RowColumns<T, kLanes> row{columns, BestColumns<kLanes, Order>::lane()};
  const int chunks = columns.template chunks<kLanes>(), used = chunks < kPlaces ? chunks : kPlaces;
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    Vector v[kChunkVectors];
    columns.template load<kLanes, true>(chunk, row.lane, v);
    C& place = places[chunk % kPlaces * kBlockThreads];
    const C largest = largestOf<T>(v);
    place = chunk < kPlaces ? largest : maxOrNan(place, largest);
  }

  Order largest = 0, second = 0;
  COLLAPSAR_ROLLED
  for (int i = 0; i < used; i++) {
    const Order order = orderOf(places[i * kBlockThreads]);
    second = order > largest ? largest : order > second ? order : second;
    largest = order > largest ? order : largest;
  }
  const C least = scoreOf(leastOfBest<kLanes>(largest, second, k));  // of 0 NaN, which every element reaches

  BestColumns<kLanes, Order> best;
  int chunk = -1;
  uint32_t bits = 0;
  while (true) {
    if (bits == 0 && chunk < chunks) {
      do {
        chunk++;
      } while (chunk < chunks && places[chunk % kPlaces * kBlockThreads] < least);
      if (chunk < chunks) bits = row.reaching(chunk, least);
    }
    if (__ballot_sync(kAllLanes, chunk < chunks) == 0) return best;
    Ranked<Order> offered{0, kNoColumn};
    if (bits != 0) {
      offered = row.ranked(chunk, __ffs(static_cast<int>(bits)) - 1);
      bits &= bits - 1;
    }
    if (!isBefore(offered, best.number(k - 1))) offered = {0, kNoColumn};
    best.add(offered);
  }
}

// How rows are cut: into pieces of so many columns, one group each.
struct TopPieces {
  int32_t pieces, pieceColumns;
};

TopPieces topPieces(int64_t columns, int64_t elementBytes) {
  const int64_t most = kPieceBytes / elementBytes, pieces = (columns + most - 1) / most;
  constexpr int64_t kAlign = 64;  // columns: whole vectors of every type, if the row starts with one
  const int64_t width = ((columns + pieces - 1) / pieces + kAlign - 1) / kAlign * kAlign;
  return {static_cast<int32_t>((columns + width - 1) / width), static_cast<int32_t>(width)};
}

template <class T>
using TopPiece = Ranked<OrderOf<T>>[COLLAPSAR_CUDA_MAX_TOP_K];

template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads)
    topColumns(const ScoreRowsJob job, const TopPieces cut, TopPiece<T>* const ofPieces) {
  using Group = ThreadGroup<kLanes>;
  __shared__ typename Element<T>::Compute places[kPlaces * kBlockThreads];
  const int64_t number = static_cast<int64_t>(blockIdx.x) * Group::kGroups + Group::index();
  const int64_t last = static_cast<int64_t>(job.cut.rows) * cut.pieces - 1;
  // A group without work goes along with the last one's and writes nothing.
  const int64_t unit = number < last ? number : last;
  const int entry = static_cast<int>(unit / cut.pieces), begin = static_cast<int>(unit % cut.pieces) * cut.pieceColumns;
  const int end = job.columns - begin > cut.pieceColumns ? begin + cut.pieceColumns : job.columns;
  const RowVectors<T> columns(rowAt<T>(job, entry), begin, end);
  const auto best = bestOf<T, kLanes>(columns, job.out.topK, places + threadIdx.x);
  if (number > last || Group::lane() >= job.out.topK) return;
  if (cut.pieces == 1) {
    const int64_t row = job.firstRow + entry;
    job.out.topColumns[row * job.out.topK + Group::lane()] = best.mine.column;
  } else {
    ofPieces[unit][Group::lane()] = best.mine;
  }
}

// One warp a row that was cut.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    mergeTopColumns(const ScoreRowsJob job, const TopPieces cut, const TopPiece<T>* const ofPieces) {
  using Group = ThreadGroup<kWarpLanes>;
  const int entry = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index(), topK = job.out.topK;
  if (entry >= job.cut.rows) return;
  const TopPiece<T>* const pieces = ofPieces + static_cast<int64_t>(entry) * cut.pieces;
  BestColumns<kWarpLanes, OrderOf<T>> best;
  const int count = cut.pieces * topK;
  COLLAPSAR_ROLLED
  for (int first = 0; first < count; first += kWarpLanes) {
    const int i = first + Group::lane();
    Ranked<OrderOf<T>> offered{0, kNoColumn};
    if (i < count) offered = pieces[i / topK][i % topK];
    if (!isBefore(offered, best.number(topK - 1))) offered = {0, kNoColumn};
    best.add(offered);
  }
  const int64_t row = job.firstRow + entry;
  if (Group::lane() < topK) job.out.topColumns[row * topK + Group::lane()] = best.mine.column;
}

template <class T>
void start(const ScoreRowsJob& job, void* workspace, cudaStream_t stream) {
  const TopPieces cut = topPieces(job.columns, sizeof(T));
  auto* const ofPieces = static_cast<TopPiece<T>*>(workspace);
  const int64_t rows = job.cut.rows, units = rows * cut.pieces;
  if (job.columns * static_cast<int64_t>(sizeof(T)) <= kShortBytes) {
    COLLAPSAR_LAUNCH((topColumns<T, kShortLanes>), blocksOf(units, ThreadGroup<kShortLanes>::kGroups), kBlockThreads,
                     stream, job, cut, ofPieces);
  } else {
    COLLAPSAR_LAUNCH((topColumns<T, kWarpLanes>), blocksOf(units, ThreadGroup<kWarpLanes>::kGroups), kBlockThreads,
                     stream, job, cut, ofPieces);
  }
  if (cut.pieces > 1) {
    COLLAPSAR_LAUNCH(mergeTopColumns<T>, blocksOf(rows, ThreadGroup<kWarpLanes>::kGroups), kBlockThreads, stream, job,
                     cut, ofPieces);
  }
}

// The first of them is the argmax, which is written with the row's other results.
bool areAsked(const ScoreRowsJob& job) { return job.out.topColumns != nullptr && job.out.topK > 1; }

}  // namespace

int64_t topColumnsBytes(const ScoreRowsJob& job, int64_t rows) {
  if (!areAsked(job)) return 0;
  return withType(job.dtype, [&](auto type) {
    const int64_t pieces = topPieces(job.columns, sizeof(type)).pieces;
    return pieces == 1 ? 0 : rows * pieces * static_cast<int64_t>(sizeof(TopPiece<decltype(type)>));
  });
}

cudaError_t launchTopColumns(const ScoreRowsJob& job, void* workspace, cudaStream_t stream) {
  if (job.cut.rows == 0 || !areAsked(job)) return cudaSuccess;
  withType(job.dtype, [&](auto type) { start<decltype(type)>(job, workspace, stream); });
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
