// 64 bytes a thread at a time. Integer sums do not depend on the order: blocks add theirs as they end.
#include "read_bytes.h"

#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vectors.cuh"
#include "kernel_launch.h"

namespace collapsar::cuda {

namespace {

constexpr int kLoads = 4;
constexpr int kBlocksPerMultiprocessor = 8;

__device__ __forceinline__ uint64_t wordOf(const Vector& v, int half) {
  return static_cast<uint64_t>(v.words[2 * half + 1]) << 32 | v.words[2 * half];
}

// A word that starts `shift` bits early: its bytes go where the words from `data` on have them.
__device__ __forceinline__ uint64_t turned(uint64_t word, unsigned shift) {
  return shift == 0 ? word : word >> shift | word << (64 - shift);
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor)
    readBytes(const unsigned char* data, int64_t bytes, unsigned long long* total) {
  const int64_t whole = bytes / 8 * 8;
  const int64_t untilAligned =
      (kVectorBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % kVectorBytes)) % kVectorBytes;
  const int64_t head = untilAligned < whole ? untilAligned : whole;
  const int64_t vectors = (whole - head) / kVectorBytes;
  const Vector* const aligned = reinterpret_cast<const Vector*>(data + head);
  const unsigned shift = static_cast<unsigned>((8 - head % 8) % 8 * 8);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kBlockThreads;

  uint64_t sum = 0;
  int64_t i = thread;
  COLLAPSAR_ROLLED
  for (; i + (kLoads - 1) * threads < vectors; i += kLoads * threads) {
    Vector v[kLoads];
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kLoads; j++) v[j] = loadVector<false>(aligned + i + j * threads);
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kLoads; j++) sum += turned(wordOf(v[j], 0), shift) + turned(wordOf(v[j], 1), shift);
  }
  // The rest of up to kLoads - 1 in flight together, too: one after the other they took as long as three rounds.
  Vector rest[kLoads - 1] = {};
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kLoads - 1; j++) {
    if (i + j * threads < vectors) rest[j] = loadVector<false>(aligned + i + j * threads);
  }
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kLoads - 1; j++) sum += turned(wordOf(rest[j], 0), shift) + turned(wordOf(rest[j], 1), shift);
  if (blockIdx.x == 0) {
    const int64_t tail = head + vectors * kVectorBytes;
    for (int64_t at = threadIdx.x; at < head; at += kBlockThreads) sum += static_cast<uint64_t>(data[at]) << at % 8 * 8;
    for (int64_t at = tail + threadIdx.x; at < whole; at += kBlockThreads) {
      sum += static_cast<uint64_t>(data[at]) << at % 8 * 8;
    }
    for (int64_t at = whole + threadIdx.x; at < bytes; at += kBlockThreads) sum += data[at];
  }
  sum = ThreadGroup<kBlockThreads>::allReduce(sum, [](uint64_t a, uint64_t b) { return a + b; });
  if (threadIdx.x == 0) atomicAdd(total, static_cast<unsigned long long>(sum));
}

}  // namespace

cudaError_t launchReadBytes(const void* data, int64_t bytes, unsigned long long* sum, int multiprocessors,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const int64_t perBlock = int64_t{kBlockThreads} * kLoads * kVectorBytes;
  const int64_t wanted = (bytes + perBlock - 1) / perBlock, most = int64_t{kBlocksPerMultiprocessor} * multiprocessors;
  COLLAPSAR_LAUNCH(readBytes, static_cast<unsigned>(wanted < most ? wanted : most), kBlockThreads, stream,
                   static_cast<const unsigned char*>(data), bytes, sum);
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
