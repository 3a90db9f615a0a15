// [P,R,T] token log-probs -> sums in float64; padding is not read.
//
// 2 or 8 lanes, a warp or a block share a segment, by its size and how many there are. A lane loads its next 128 bytes
// at once, and a multiprocessor holds 1024 such lanes, whose arithmetic hides the loads. Elements are added by pairs
// inside a vector, and the rounding of two vectors' sum is kept; the order depends on a segment's place and length
// alone.
#include "token_sums.h"

#include "cuda/kernel_launch.h"
#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vector_loads.cuh"
#include "cuda/rows/with_type.h"

namespace collapsar::cuda {

namespace {

constexpr int kThreadsPerMultiprocessor = 1024;  // as registers allow without spilling
constexpr int kRows = 8;                         // vectors of a lane that are on their way at a time

// Of a block. Warps with a segment each go by two: all wait for the longest of their block, and of eight a third would.
template <int kLanes>
constexpr int kThreads = kLanes == kWarpLanes ? 2 * kWarpLanes : kBlockThreads;

__device__ __forceinline__ bool isSuspicious(double sum) { return !(sum < kHugeDouble); }

// Added by pairs.
template <class T>
__device__ __forceinline__ double sumOf(const typename Element<T>::Compute (&x)[Element<T>::kPerVector]) {
  double sums[Element<T>::kPerVector];
  COLLAPSAR_UNROLLED
  for (int e = 0; e < Element<T>::kPerVector; e++) sums[e] = static_cast<double>(x[e]);
  COLLAPSAR_UNROLLED
  for (int step = 1; step < Element<T>::kPerVector; step *= 2) {
    COLLAPSAR_UNROLLED
    for (int e = 0; e < Element<T>::kPerVector; e += 2 * step) sums[e] += sums[e + step];
  }
  return sums[0];
}

template <class T>
__device__ __forceinline__ double vectorSum(const Vector& v) {
  typename Element<T>::Compute x[Element<T>::kPerVector];
  unpack<T>(v, x);
  return sumOf<T>(x);
}

// A segment of tokens side by side, as the 16-byte vectors that memory has there: whole ones, and at the ends up to two
// that hold other things besides.
template <class T>
struct Segment {
  static constexpr unsigned kPerVector = Element<T>::kPerVector;

  const Vector* whole = nullptr;      // the first one
  int wholes = 0;                     // so many
  unsigned head = 0, beforeHead = 0;  // tokens before it, and what else is before those in their vector
  unsigned tail = 0;                  // tokens behind the last one

  __device__ Segment() {}
  __device__ Segment(const T* tokens, int length) {
    const auto address = reinterpret_cast<uintptr_t>(tokens);
    const unsigned gap = -static_cast<unsigned>(address) % kVectorBytes / sizeof(T),
                   all = static_cast<unsigned>(length);
    whole = reinterpret_cast<const Vector*>((address + (kVectorBytes - 1)) / kVectorBytes * kVectorBytes);
    head = all < gap ? all : gap;
    beforeHead = kPerVector - gap;
    wholes = static_cast<int>((all - head) / kPerVector);
    tail = (all - head) % kPerVector;
  }
};

// 0 if it does not exist. Kept where few lanes share a segment: they read the parts of 32 bytes one after the other.
template <int kLanes>
__device__ __forceinline__ Vector loadShared(bool exists, const Vector* from) {
  Vector v{{0, 0, 0, 0}};
  loadIf<(kLanes < kWarpLanes)>(exists, from, v);
  return v;
}

// A lane's next whole vectors, `kLanes` apart, while there are any in the `left` vectors from the first on.
template <int kLanes>
__device__ __forceinline__ void loadRows(const Vector* next, int left, Vector (&rows)[kRows]) {
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kRows; j++) rows[j] = loadShared<kLanes>(j * kLanes < left, next + j * kLanes);
}

// The elements of a vector whose bit is set, 0 for the others, which may be NaN or lie behind the end of memory.
template <class T, int kLanes>
__device__ __forceinline__ void loadKept(const TokenSumsJob& job, const Vector* at, unsigned kept,
                                         typename Element<T>::Compute (&x)[Element<T>::kPerVector]) {
  if (at >= job.firstReadable && at < job.endReadable) {
    unpack<T>(loadShared<kLanes>(true, at), x);
    COLLAPSAR_UNROLLED
    for (int e = 0; e < Element<T>::kPerVector; e++) x[e] = (kept >> e & 1u) != 0 ? x[e] : 0;
  } else {
    const T* const elements = reinterpret_cast<const T*>(at);
    COLLAPSAR_UNROLLED
    for (int e = 0; e < Element<T>::kPerVector; e++) x[e] = (kept >> e & 1u) != 0 ? floatOf(elements[e]) : 0;
  }
}

// Of the tokens before the first whole vector, in lane 0, and behind the last one, in lane 1: 60 instructions for both.
template <class T, int kLanes>
__device__ __forceinline__ double endSum(const TokenSumsJob& job, const Segment<T>& segment, int lane) {
  const bool isHead = lane == 0;
  const unsigned tokens = isHead ? segment.head : lane == 1 ? segment.tail : 0;
  if (tokens == 0) return 0.0;
  const unsigned kept = ((1u << tokens) - 1) << (isHead ? segment.beforeHead : 0);
  typename Element<T>::Compute x[Element<T>::kPerVector];
  loadKept<T, kLanes>(job, segment.whole + (isHead ? -1 : segment.wholes), kept, x);
  return sumOf<T>(x);
}

// A segment by its prompt and its row.
struct Place {
  unsigned prompt, row;

  // To the segment so many further on, in 8 instructions; to divide again takes 35.
  __device__ void advance(Place step, int rows) {
    prompt += step.prompt;
    row += step.row;
    if (row >= static_cast<unsigned>(rows)) {
      row -= static_cast<unsigned>(rows);
      prompt++;
    }
  }
};

template <class T>
__device__ __forceinline__ const T* firstToken(const TokenSumsJob& job, Place place) {
  return static_cast<const T*>(job.data) + place.prompt * job.promptStride + job.starts[place.row];
}

COLLAPSAR_BOTH Place placeOf(int64_t segment, int rows) {
  return {static_cast<unsigned>(segment / rows), static_cast<unsigned>(segment % rows)};
}

// `low`: what rounding took from the sum; NaN where that is not finite.
__device__ __forceinline__ void storeSum(const TokenSumsJob& job, Place place, double sum, double low) {
  if (low == low) sum += low;
  const unsigned column = job.columnOf != nullptr ? static_cast<unsigned>(job.columnOf[place.prompt]) : place.prompt;
  job.sums[place.row * job.sumsStride + column] = sum == sum ? sum : undefined();
  if (isSuspicious(sum)) {
    const int64_t segment = int64_t{place.prompt} * job.rows + place.row;
    atomicMin(job.firstSuspect, static_cast<unsigned long long>(segment));
  }
}

// Tokens side by side. step: so many segments the grid takes at a time.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads<kLanes>, kThreadsPerMultiprocessor / kThreads<kLanes>)
    sumSegments(const TokenSumsJob job, const Place step) {
  using Group = ThreadGroup<kLanes>;
  constexpr int kGroups = kThreads<kLanes> / kLanes;
  const int lane = Group::lane();
  const int64_t segments = job.prompts * job.rows;
  const int64_t groups = static_cast<int64_t>(gridDim.x) * kGroups;
  int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups;
  Place place = placeOf(first + Group::index(), job.rows);
  // All groups of a block go round as often, because they exchange values.
  for (; first < segments; first += groups, place.advance(step, job.rows)) {
    const bool real = place.prompt < job.prompts;
    const Segment<T> segment = real ? Segment<T>(firstToken<T>(job, place), job.lengths[place.row]) : Segment<T>();
    const Vector* next = segment.whole + lane;
    int left = segment.wholes;
    Vector rows[kRows];
    loadRows<kLanes>(next, left - lane, rows);
    double sum = endSum<T, kLanes>(job, segment, lane), low = 0.0;
    COLLAPSAR_ROLLED
    while (left > 0) {
      COLLAPSAR_UNROLLED
      for (int j = 0; j < kRows; j += 2) {
        if (j * kLanes < left) addKeepingLow(sum, low, vectorSum<T>(rows[j]) + vectorSum<T>(rows[j + 1]));
      }
      next += kRows * kLanes;
      left -= kRows * kLanes;
      if (left > 0) loadRows<kLanes>(next, left - lane, rows);
    }
    struct Parts {
      double sum, low;
    };
    const Parts all = Group::allReduce(Parts{sum, low}, [](Parts a, Parts b) {
      addKeepingLow(a.sum, a.low, b.sum);
      a.low += b.low;
      return a;
    });
    if (real && lane == 0) storeSum(job, place, all.sum, all.low);
  }
}

// Tokens apart: a thread takes a segment, and neighbouring threads neighbouring segments.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) sumSpreadSegments(const TokenSumsJob job) {
  const int64_t segments = job.prompts * job.rows;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kBlockThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < segments; i += threads) {
    const bool rowsInside = job.rowsInside != 0;
    const int64_t inside = rowsInside ? job.rows : job.prompts;
    const auto outer = static_cast<unsigned>(i / inside), inner = static_cast<unsigned>(i % inside);
    const Place place = rowsInside ? Place{outer, inner} : Place{inner, outer};
    const T* const tokens = firstToken<T>(job, place);
    const int length = job.lengths[place.row];
    double sum = 0.0, low = 0.0;
    COLLAPSAR_ROLLED_BY_4
    for (int t = 0; t < length; t++) {
      addKeepingLow(sum, low, static_cast<double>(floatOf(tokens[t * job.tokenStride])));
    }
    storeSum(job, place, sum, low);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) firstInvalid(const TokenSumsJob job, Place place, int32_t* found) {
  const T* const tokens = firstToken<T>(job, place);
  const int length = job.lengths[place.row];
  int first = length;
  // 64 bits: past the last token of the longest row, 32 would begin again below 0.
  for (int64_t t = threadIdx.x; t < length && first == length; t += kBlockThreads) {
    if (isSuspicious(static_cast<double>(floatOf(tokens[t * job.tokenStride])))) first = static_cast<int>(t);
  }
  first = ThreadGroup<kBlockThreads>::allReduce(first, [](int a, int b) { return a < b ? a : b; });
  if (threadIdx.x == 0) *found = first;
}

__global__ void __launch_bounds__(kBlockThreads) nextSuspect(const TokenSumsJob job, int64_t from) {
  const int64_t segments = job.prompts * job.rows, threads = static_cast<int64_t>(gridDim.x) * kBlockThreads;
  for (int64_t i = from + static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < segments; i += threads) {
    const int64_t prompt = i / job.rows, row = i % job.rows;
    const int64_t column = job.columnOf != nullptr ? job.columnOf[prompt] : prompt;
    if (isSuspicious(job.sums[row * job.sumsStride + column])) {
      atomicMin(job.firstSuspect, static_cast<unsigned long long>(i));
    }
  }
}

// Sixteen times the blocks that run at a time: segments differ in length, and blocks must end early against the whole.
unsigned gridOf(int64_t work, int64_t perBlock, int threads, int multiprocessors) {
  const int64_t blocks = (work + perBlock - 1) / perBlock,
                most = int64_t{16} * (kThreadsPerMultiprocessor / threads) * multiprocessors;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

template <class T, int kLanes>
void startShared(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream) {
  constexpr int64_t kGroups = kThreads<kLanes> / kLanes;
  const unsigned blocks = gridOf(job.prompts * job.rows, kGroups, kThreads<kLanes>, multiprocessors);
  const Place step = placeOf(blocks * kGroups, job.rows);
  COLLAPSAR_LAUNCH((sumSegments<T, kLanes>), blocks, kThreads<kLanes>, stream, job, step);
}

template <class T>
void start(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream) {
  const int64_t segments = job.prompts * job.rows;
  if (job.tokenStride != 1) {
    COLLAPSAR_LAUNCH(sumSpreadSegments<T>, gridOf(segments, kBlockThreads, kBlockThreads, multiprocessors),
                     kBlockThreads, stream, job);
  } else if (job.meanBytes <= 256) {
    startShared<T, 2>(job, multiprocessors, stream);
  } else if (job.meanBytes <= 1024) {
    startShared<T, 8>(job, multiprocessors, stream);
  } else if (job.meanBytes <= 4096 || segments >= int64_t{16} * multiprocessors) {
    startShared<T, kWarpLanes>(job, multiprocessors, stream);
  } else {
    startShared<T, kBlockThreads>(job, multiprocessors, stream);
  }
}

}  // namespace

cudaError_t launchTokenSums(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream) {
  if (job.prompts == 0 || job.rows == 0) return cudaSuccess;
  withType(job.dtype, [&](auto type) { start<decltype(type)>(job, multiprocessors, stream); });
  return cudaGetLastError();
}

cudaError_t launchFirstInvalid(const TokenSumsJob& job, int64_t prompt, int32_t row, int32_t* found,
                               cudaStream_t stream) {
  const Place place{static_cast<unsigned>(prompt), static_cast<unsigned>(row)};
  withType(job.dtype, [&](auto type) {
    COLLAPSAR_LAUNCH(firstInvalid<decltype(type)>, 1u, kBlockThreads, stream, job, place, found);
  });
  return cudaGetLastError();
}

cudaError_t launchNextSuspect(const TokenSumsJob& job, int64_t from, cudaStream_t stream) {
  COLLAPSAR_LAUNCH(nextSuspect, 256u, kBlockThreads, stream, job, from);
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
