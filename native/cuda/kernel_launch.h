// Starts a kernel; a macro, because a build that runs the kernels on the host for the tests puts its own in this place.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#if !defined(COLLAPSAR_LAUNCH)
#define COLLAPSAR_LAUNCH(kernel, blocks, threads, stream, ...) kernel<<<(blocks), (threads), 0, (stream)>>>(__VA_ARGS__)
#endif

namespace collapsar::cuda {

constexpr int kBlockThreads = 256;  // of most kernels
constexpr int kWarpLanes = 32;

inline unsigned blocksOf(int64_t count, int64_t perBlock) {
  return static_cast<unsigned>((count + perBlock - 1) / perBlock);
}

}  // namespace collapsar::cuda
