// Reads a file and drops its bytes: the roofline that computing on files is compared with.
#pragma once

#include <cstdint>

#include "engine/file_reader.h"
#include "engine/thread_pool.h"

namespace collapsar {

// `bytes` from `offset` on, in pieces of `pieceBytes` (1 to kPieceBytes), cut among the pool's threads. Gives where
// reading ended too early, if it did.
ReadFailure readFile(int fd, std::int64_t offset, std::int64_t bytes, std::int64_t pieceBytes, ThreadPool& pool);

}  // namespace collapsar
