// FileReader: a read that comes in parts, and which of several failures is kept.
#include "engine/file_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "check.h"
#include "engine/thread_pool.h"
#include "temporary_file.h"

using namespace collapsar;

TEST_CASE("the byte at which a file ends is named whatever the threads") {
  const std::int64_t end = 2 * kPieceBytes - 1;  // one thread still reads what is in front of it, others come after it
  const test::TemporaryFile file;
  file.write("", 1, end - 1);
  ThreadPool pool(3);
  for (int run = 0; run < (test::kSanitized ? 50 : 500); run++) {
    JobControl control;
    FileReader reader(file.fd);
    pool.run(6, control, [&](std::int64_t piece, int) {
      reader.read(reader.buffer(piece * kPieceBytes), kPieceBytes, piece * kPieceBytes);
    });
    CHECK_EQUAL(reader.failure().offset, end);
    CHECK_EQUAL(reader.failure().error, 0);
  }
}

#if defined(__linux__)
TEST_CASE("a read that comes in parts is put together") {
  // Files that the kernel writes come a page at a time, whatever was asked for.
  const int fd = open("/proc/kallsyms", O_RDONLY);
  std::string whole(30000, ' '), read = whole;
  std::int64_t got = 0;
  bool inParts = false;
  for (ssize_t some = 1; fd >= 0 && some > 0 && got < 30000; got += some) {
    some = pread(fd, &whole[static_cast<std::size_t>(got)], static_cast<std::size_t>(30000 - got), got);
    inParts |= some < 30000;
  }
  if (got == 30000 && inParts) {
    FileReader reader(fd);
    CHECK(reader.read(read.data(), 30000, 0));
    CHECK(read == whole);
  } else {
    std::puts("skipped: no file here comes in parts");
  }
  if (fd >= 0) close(fd);
}
#endif

int main() { return collapsar::test::runCases(); }
