// A file -> nothing: its bytes are read and dropped. The roofline that the benchmarks compare computing on files with.
#pragma once

#include <cstdint>

#include "engine/file_reader.h"
#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// `bytes` from `offset` on, in pieces of `pieceBytes` (1 to kPieceBytes), cut among the pool's threads. `failure` says
// where reading ended too early, if it did.
Outcome readFile(int fd, std::int64_t offset, std::int64_t bytes, std::int64_t pieceBytes, ThreadPool& pool,
                 JobControl& control, ReadFailure* failure);

}  // namespace collapsar
