// readFile: all of the bytes that it is asked for, once, and where a file ends before them.
#include "engine/roofline/read_file.h"

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
  JobControl tooFar;
  CHECK(readFile(file.fd, kOffset, bytes + 1, 1000, pool, tooFar, &failure) == Outcome::Done);
  CHECK_EQUAL(failure.offset, kOffset + bytes);
  CHECK_EQUAL(failure.error, 0);
}

int main() { return collapsar::test::runCases(); }
