// readFile: all of the bytes that it is asked for, once, and where a file ends before them.
#include "engine/roofline/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "check.h"
#include "temporary_file.h"

using namespace collapsar;

TEST_CASE("a pure read reads all, and says where the file ends") {
  constexpr std::int64_t kOffset = 1003;
  const std::vector<char> data(3 * kPieceBytes + 5);
  const auto bytes = static_cast<std::int64_t>(data.size());
  const test::TemporaryFile file;
  file.write(data.data(), data.size(), kOffset);
  ThreadPool pool(2);
  ReadFailure failure;
  JobControl whole;
  CHECK(readFile(file.fd, kOffset, bytes, kPieceBytes, pool, whole, &failure) == Outcome::Done);
  CHECK_EQUAL(failure.offset, std::int64_t{-1});
  CHECK_EQUAL(whole.doneUnits.load(), bytes);
  CHECK_EQUAL(whole.totalUnits.load(), bytes);
  JobControl tooFar;
  CHECK(readFile(file.fd, kOffset, bytes + 1, 1000, pool, tooFar, &failure) == Outcome::Done);
  CHECK_EQUAL(failure.offset, kOffset + bytes);
  CHECK_EQUAL(failure.error, 0);
  // Pieces of no size that makes sense.
  JobControl odd;
  CHECK(readFile(file.fd, kOffset, 3, 0, pool, odd, &failure) == Outcome::Done);
  CHECK(readFile(file.fd, kOffset, bytes, 8 * kPieceBytes, pool, odd, &failure) == Outcome::Done);
  CHECK_EQUAL(odd.doneUnits.load(), 3 + bytes);
}

TEST_CASE("the byte at which a file ends is named whatever the threads") {
  const std::int64_t end = 2 * kPieceBytes - 1;  // one thread still reads what is in front of it, others come after it
  const test::TemporaryFile file;
  file.write("", 1, end - 1);
  ThreadPool pool(3);
  for (int run = 0; run < (test::kSanitized ? 50 : 500); run++) {
    JobControl control;
    ReadFailure failure;
    readFile(file.fd, 0, end + 4 * kPieceBytes, kPieceBytes, pool, control, &failure);
    CHECK_EQUAL(failure.offset, end);
    CHECK_EQUAL(failure.error, 0);
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
