// How much is done, sent or kept at a time: a thousandth of it in builds for tests, so that small tensors are cut, too.
#pragma once

#include <cstdint>

namespace collapsar::cuda {

#if defined(COLLAPSAR_SMALL_PORTIONS)
constexpr std::int64_t kPortionDivisor = 1024;
#else
constexpr std::int64_t kPortionDivisor = 1;
#endif

// Rows of one start of a kernel; numbers of rows are 32 bits there.
constexpr std::int64_t kMostRows = (1 << 20) / kPortionDivisor;

// Bytes of a tensor of the device, read in place between two looks at `cancelled`: 4 ms of an H200's bandwidth.
constexpr std::int64_t kDirectBytes = (std::int64_t{16} << 30) / kPortionDivisor;
// Bytes of a block of rows that are sent or gathered, one while another is worked on.
constexpr std::int64_t kBlockBytes = (64 << 20) / kPortionDivisor;
// Bytes of host tokens, and of sums, of the rows that go together.
constexpr std::int64_t kTokenBytes = (256 << 20) / kPortionDivisor, kSumsBytes = (256 << 20) / kPortionDivisor;
// Bytes of each of two pinned buffers: a copy of 0.2 ms, long beside what starting it takes.
constexpr std::int64_t kStagingBytes = (8 << 20) / kPortionDivisor;

// Bytes of workspace for one purpose: kept between calls, and what it grows by.
constexpr std::int64_t kKeptBytes = (256 << 20) / kPortionDivisor;
constexpr std::int64_t kSpaceGranule = (1 << 20) / kPortionDivisor;

}  // namespace collapsar::cuda
