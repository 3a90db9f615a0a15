// [P,R,T] token log-probs -> sums in float64. Only valid tokens are read: padding is skipped by a row's length.
//
// 8 lanes, a warp or a block share a segment, by its size and by how many there are. Elements are widened and added by
// pairs inside a vector, and what rounding takes from the sums of vectors is kept; the order of additions depends on a
// segment's place in memory and length alone.
#include "token_sums.h"

#include "kernel_launch.h"
#include "row_vectors.cuh"
#include "thread_group.cuh"

namespace collapsar::cuda {

namespace {

constexpr int kBlocksPerMultiprocessor = 3;  // as registers allow without spilling

__device__ __forceinline__ bool isSuspicious(double sum) { return !(sum < kHugeDouble); }

template <class T>
__device__ __forceinline__ double vectorSum(const Vector& v) {
  typename Element<T>::Compute x[Element<T>::kPerVector];
  unpack<T>(v, x);
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

// `low`: what rounding took from the sum; NaN where that is not finite.
__device__ __forceinline__ void storeSum(const TokenSumsJob& job, int64_t prompt, int row, double sum, double low) {
  if (low == low) sum += low;
  const int64_t column = job.columnOf != nullptr ? job.columnOf[prompt] : prompt;
  job.sums[row * job.sumsStride + column] = sum == sum ? sum : undefined();
  if (isSuspicious(sum)) {
    atomicMin(job.firstSuspect, static_cast<unsigned long long>(prompt * job.rows + row));
  }
}

// Tokens side by side.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor) sumSegments(const TokenSumsJob job) {
  using Group = ThreadGroup<kLanes>;
  const int64_t segments = job.prompts * job.rows;
  const int64_t groups = static_cast<int64_t>(gridDim.x) * Group::kGroups;
  // All groups of a block go round as often, because they exchange values.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * Group::kGroups; first < segments; first += groups) {
    const int64_t segment = first + Group::index();
    const bool real = segment < segments;
    const int64_t prompt = real ? segment / job.rows : 0;
    const int row = real ? static_cast<int>(segment - prompt * job.rows) : 0;
    const T* const tokens = static_cast<const T*>(job.data) + prompt * job.promptStride + job.starts[row];
    const RowVectors<T> vectors(tokens, 0, real ? job.lengths[row] : 0);
    const int chunks = vectors.template chunks<kLanes>();
    double sum = 0.0, low = 0.0;
    Vector next[kChunkVectors];
    vectors.template load<kLanes, false, true>(0, Group::lane(), next);
    COLLAPSAR_ROLLED
    for (int chunk = 0; chunk < chunks; chunk++) {
      Vector v[kChunkVectors];
      COLLAPSAR_UNROLLED
      for (int j = 0; j < kChunkVectors; j++) v[j] = next[j];
      if (chunk + 1 < chunks) vectors.template load<kLanes, false, true>(chunk + 1, Group::lane(), next);
      addKeepingLow(sum, low, (vectorSum<T>(v[0]) + vectorSum<T>(v[1])) + (vectorSum<T>(v[2]) + vectorSum<T>(v[3])));
    }
    struct Parts {
      double sum, low;
    };
    const Parts all = Group::all(Parts{sum, low}, [](Parts a, Parts b) {
      addKeepingLow(a.sum, a.low, b.sum);
      a.low += b.low;
      return a;
    });
    if (real && Group::lane() == 0) storeSum(job, prompt, row, all.sum, all.low);
  }
}

// Tokens apart: a thread takes a segment, and neighbouring threads neighbouring segments.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) sumSpreadSegments(const TokenSumsJob job) {
  const int64_t segments = job.prompts * job.rows;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kBlockThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < segments; i += threads) {
    const int64_t prompt = job.rowsInside != 0 ? i / job.rows : i % job.prompts;
    const int row = static_cast<int>(job.rowsInside != 0 ? i % job.rows : i / job.prompts);
    const T* const tokens = static_cast<const T*>(job.data) + prompt * job.promptStride + job.starts[row];
    const int length = job.lengths[row];
    double sum = 0.0, low = 0.0;
    COLLAPSAR_ROLLED_BY_4
    for (int t = 0; t < length; t++) {
      addKeepingLow(sum, low, static_cast<double>(floatOf(tokens[t * job.tokenStride])));
    }
    storeSum(job, prompt, row, sum, low);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    firstInvalid(const TokenSumsJob job, int64_t prompt, int row, int32_t* found) {
  const T* const tokens = static_cast<const T*>(job.data) + prompt * job.promptStride + job.starts[row];
  const int length = job.lengths[row];
  int first = length;
  // 64 bits: past the last token of the longest row, 32 would begin again below 0.
  for (int64_t t = threadIdx.x; t < length && first == length; t += kBlockThreads) {
    if (isSuspicious(static_cast<double>(floatOf(tokens[t * job.tokenStride])))) first = static_cast<int>(t);
  }
  first = ThreadGroup<kBlockThreads>::all(first, [](int a, int b) { return a < b ? a : b; });
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

unsigned gridOf(int64_t work, int64_t perBlock, int multiprocessors) {
  const int64_t blocks = (work + perBlock - 1) / perBlock,
                most = int64_t{16} * kBlocksPerMultiprocessor * multiprocessors;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

template <class T, int kLanes>
void startShared(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream) {
  const int64_t perBlock = ThreadGroup<kLanes>::kGroups;
  COLLAPSAR_LAUNCH((sumSegments<T, kLanes>), gridOf(job.prompts * job.rows, perBlock, multiprocessors), kBlockThreads,
                   stream, job);
}

template <class T>
void start(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream) {
  const int64_t segments = job.prompts * job.rows;
  if (job.tokenStride != 1) {
    COLLAPSAR_LAUNCH(sumSpreadSegments<T>, gridOf(segments, kBlockThreads, multiprocessors), kBlockThreads, stream,
                     job);
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
  switch (job.dtype) {
    case 0:
      start<double>(job, multiprocessors, stream);
      break;
    case 1:
      start<float>(job, multiprocessors, stream);
      break;
    case 2:
      start<Float16>(job, multiprocessors, stream);
      break;
    default:
      start<BFloat16>(job, multiprocessors, stream);
  }
  return cudaGetLastError();
}

cudaError_t launchFirstInvalid(const TokenSumsJob& job, int64_t prompt, int32_t row, int32_t* found,
                               cudaStream_t stream) {
  switch (job.dtype) {
    case 0:
      COLLAPSAR_LAUNCH(firstInvalid<double>, 1u, kBlockThreads, stream, job, prompt, row, found);
      break;
    case 1:
      COLLAPSAR_LAUNCH(firstInvalid<float>, 1u, kBlockThreads, stream, job, prompt, row, found);
      break;
    case 2:
      COLLAPSAR_LAUNCH(firstInvalid<Float16>, 1u, kBlockThreads, stream, job, prompt, row, found);
      break;
    default:
      COLLAPSAR_LAUNCH(firstInvalid<BFloat16>, 1u, kBlockThreads, stream, job, prompt, row, found);
  }
  return cudaGetLastError();
}

cudaError_t launchNextSuspect(const TokenSumsJob& job, int64_t from, cudaStream_t stream) {
  COLLAPSAR_LAUNCH(nextSuspect, 256u, kBlockThreads, stream, job, from);
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
