// An open file -> its bytes in a small buffer of each thread, which stays in that thread's second-level cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

namespace collapsar {

// Bytes of a file that are read at once. A core copies from the page cache as fast from here on as with any larger
// piece, and what it copied is still in a second-level cache of 512 KiB or more when it is computed on.
constexpr std::int64_t kPieceBytes = 256 << 10;

// Why a file could not be read to the end that it was said to have; offset < 0 if it could.
struct ReadFailure {
  int error = 0;             // errno; 0: the file ends here
  std::int64_t offset = -1;  // of the first byte that did not come
};

// Reads a file in one job, on any thread. Of several failures the one at the lowest offset is kept, and a failure stops
// nothing in front of it: which byte is reported does not depend on the threads.
class FileReader {
 public:
  explicit FileReader(int fd) : fd_(fd) {}

  // Fills [to, to + bytes) from `offset` on; false if that failed, or anything in front of it did.
  bool read(void* to, std::int64_t bytes, std::int64_t offset);

  ReadFailure failure() const { return failure_; }  // once no thread reads any more

  // The calling thread's own kPieceBytes, page-aligned, for the thread's life. Null, and a failure at `offset`, if
  // none.
  char* buffer(std::int64_t offset);

  // Tells the system that the whole range will be wanted, from its start on.
  void expectSequential(std::int64_t offset, std::int64_t bytes) const;

 private:
  void fail(int error, std::int64_t offset);

  int fd_;
  std::atomic<std::int64_t> failedAt_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex_;
  ReadFailure failure_;
};

}  // namespace collapsar
