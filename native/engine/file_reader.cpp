#include "file_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace collapsar {
namespace {

constexpr std::size_t kPage = 4096;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

}  // namespace

char* FileReader::buffer(std::int64_t offset) {
  thread_local std::unique_ptr<char, Free> own;
  if (own == nullptr) own.reset(static_cast<char*>(std::aligned_alloc(kPage, kPieceBytes)));
  if (own == nullptr) fail(ENOMEM, offset);
  return own.get();
}

bool FileReader::read(void* to, std::int64_t bytes, std::int64_t offset) {
  static_assert(sizeof(off_t) == 8, "files of more than 2 GiB");
  char* target = static_cast<char*>(to);
  while (bytes > 0) {
    if (offset >= failedAt_.load(std::memory_order_relaxed)) return false;
    const ssize_t got = pread(fd_, target, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      fail(got < 0 ? errno : 0, offset);
      return false;
    }
    target += got;
    offset += got;
    bytes -= got;
  }
  return true;
}

void FileReader::expectSequential([[maybe_unused]] std::int64_t offset, [[maybe_unused]] std::int64_t bytes) const {
#ifdef POSIX_FADV_SEQUENTIAL
  // Advice: where it is refused, reading works as well. macOS has none and reads ahead by itself.
  (void)posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_SEQUENTIAL);
#endif
}

void FileReader::fail(int error, std::int64_t offset) {
  const std::lock_guard lock(mutex_);
  if (offset >= failedAt_.load(std::memory_order_relaxed)) return;
  failure_ = {error, offset};
  failedAt_.store(offset, std::memory_order_relaxed);
}

}  // namespace collapsar
