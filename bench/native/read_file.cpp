#include "read_file.h"

#include <algorithm>

namespace collapsar {

ReadFailure readFile(int fd, std::int64_t offset, std::int64_t bytes, std::int64_t pieceBytes, ThreadPool& pool) {
  const std::int64_t piece = std::clamp<std::int64_t>(pieceBytes, 1, kPieceBytes);
  FileReader reader(fd);
  reader.expectSequential(offset, bytes);
  JobControl control;
  pool.run((bytes + piece - 1) / piece, control, [&](std::int64_t tile, int) {
    const std::int64_t size = std::min(piece, bytes - tile * piece), start = offset + tile * piece;
    char* const buffer = reader.buffer(start);
    if (buffer != nullptr) reader.read(buffer, size, start);
  });
  return reader.failure();
}

}  // namespace collapsar
