// sumFileTokens: the bits of sumTokens on any shape, type and number of threads; what ends or fails to be read; cancel.
#include "engine/tokens/sum_file_tokens.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/half.h"
#include "engine/isa.h"
#include "random_numbers.h"
#include "temporary_file.h"

using namespace collapsar;

namespace {

constexpr std::int64_t kOffset = 1003;  // of the scores in the file: not aligned
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Step {
  DType dtype;
  std::int64_t prompts, rows, tokens;
  std::vector<std::int64_t> lengths;
  std::vector<char> data;

  void* at(std::int64_t prompt, std::int64_t row, std::int64_t token) {
    const auto size = static_cast<std::int64_t>(sizeOf(dtype));
    return data.data() + ((prompt * rows + row) * tokens + token) * size;
  }
  void set(std::int64_t prompt, std::int64_t row, std::int64_t token, double value) {
    const float narrow = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    const std::uint16_t brain = static_cast<std::uint16_t>(bits >> 16);
    // Of float16 only what the tests need: infinities and one NaN.
    const std::uint16_t half = value != value ? 0x7e00 : value > 0 ? 0x7c00 : 0xfc00;
    switch (dtype) {
      case DType::Float64:
        std::memcpy(at(prompt, row, token), &value, 8);
        break;
      case DType::Float32:
        std::memcpy(at(prompt, row, token), &narrow, 4);
        break;
      case DType::Float16:
        std::memcpy(at(prompt, row, token), &half, 2);
        break;
      case DType::BFloat16:
        std::memcpy(at(prompt, row, token), &brain, 2);
        break;
    }
  }
  FileScores inFile(int fd) const { return {fd, kOffset, dtype, prompts, rows, tokens, lengths.data()}; }
  TokenScores inMemory() const {
    return {data.data(), dtype, prompts, rows, rows * tokens, tokens, 1, lengths.data(), nullptr};
  }
};

// Log-probs between -8 and 0; past a row's length NaN, which must not be used.
Step stepOf(DType dtype, std::int64_t prompts, std::int64_t rows, std::int64_t tokens, int fill) {
  Step step{dtype, prompts, rows, tokens, {}, {}};
  step.data.reserve(64);  // QEMU's masked loads look at the address even where the mask lets nothing through
  step.data.resize(static_cast<std::size_t>(prompts * rows * tokens) * sizeOf(dtype));
  std::uint64_t state = 77 + static_cast<std::uint64_t>(prompts * 31 + rows * 7 + tokens + fill);
  const auto next = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  for (std::int64_t row = 0; row < rows; row++) {
    const auto drawn = static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(tokens + 1));
    step.lengths.push_back(fill == 0 ? tokens : fill == 1 ? drawn : row % 3 == 0 ? drawn / 50 : 0);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t prompt = 0; prompt < prompts; prompt++) {
    for (std::int64_t row = 0; row < rows; row++) {
      for (std::int64_t token = 0; token < tokens; token++) {
        if (token >= step.lengths[row]) {
          step.set(prompt, row, token, nan);
        } else if (dtype == DType::Float16) {
          const std::uint16_t bits = static_cast<std::uint16_t>(0x8000 | next() % 0x4800);  // -0 to -8
          std::memcpy(step.at(prompt, row, token), &bits, 2);
        } else {
          step.set(prompt, row, token, -static_cast<double>(next() % 1000003) / 125001.3);
        }
      }
    }
  }
  return step;
}

void expectSameBits(const Step& step, int threads) {
  const test::TemporaryFile file;
  file.write(step.data.data(), step.data.size(), kOffset);
  ThreadPool pool(threads);
  const auto size = static_cast<std::size_t>(step.prompts * step.rows);
  std::vector<double> expected(size, -1.0), sums(size, -2.0);
  std::vector<std::int32_t> columnOf;
  for (std::int64_t p = 0; p < step.prompts; p++) columnOf.push_back(static_cast<std::int32_t>(step.prompts - 1 - p));
  JobControl control, fileControl;
  InvalidToken invalid, fileInvalid;
  ReadFailure failure;
  const TokenSums inMemory{expected.data(), step.prompts, columnOf.data()};
  const TokenSums fromFile{sums.data(), step.prompts, columnOf.data()};
  CHECK(sumTokens(step.inMemory(), inMemory, pool, control, &invalid) == Outcome::Done);
  CHECK(sumFileTokens(step.inFile(file.fd), fromFile, pool, fileControl, &fileInvalid, &failure) == Outcome::Done);
  CHECK_EQUAL(failure.offset, std::int64_t{-1});
  CHECK(size == 0 || std::memcmp(expected.data(), sums.data(), size * sizeof(double)) == 0);
  CHECK_EQUAL(fileInvalid.prompt, invalid.prompt);
  CHECK_EQUAL(fileInvalid.row, invalid.row);
  CHECK_EQUAL(fileInvalid.token, invalid.token);
  CHECK_EQUAL(fileControl.doneUnits.load(), fileControl.totalUnits.load());
  CHECK_EQUAL(fileControl.totalUnits.load(), control.totalUnits.load());
}

constexpr DType kDTypes[] = {DType::Float64, DType::Float32, DType::Float16, DType::BFloat16};

}  // namespace

TEST_CASE("the same bits as in memory, for any shape, type, threads and instruction set") {
  const std::int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 31},    {2, 7, 33},     {5, 3, 511},   {9, 70, 257},
                                    {2, 3, 1024},  {3, 2, 4096},  {2, 3, 4097},   {1, 3, 20011}, {2, 2, 140003},
                                    {1, 2, 65536}, {1, 2, 65537}, {1, 1, 131073}, {1, 33, 4097}, {0, 3, 7},
                                    {3, 0, 7},     {3, 2, 0},     {1, 9000, 3},   {2, 1, 32768}, {2, 2, 131072}};
  const Isa active = activeIsa();
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!isaSupported(isa)) continue;
    forceIsa(isaName(isa));
    for (const DType dtype : kDTypes) {
      for (const auto& [prompts, rows, tokens] : shapes) {
        for (const int fill : {0, 1, 2}) expectSameBits(stepOf(dtype, prompts, rows, tokens, fill), fill + 1);
      }
    }
  }
  forceIsa(isaName(active));
}

TEST_CASE("the first invalid token, in rows of one piece and of several") {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t tokens : {100, 4200, 150000}) {
      Step step = stepOf(dtype, 3, 2, tokens, 0);
      step.set(2, 0, tokens - 1, kInfinity);
      expectSameBits(step, 2);
      step.set(1, 1, tokens / 2, std::numeric_limits<double>::quiet_NaN());
      expectSameBits(step, 2);
      step.set(0, 1, 5, -kInfinity);  // a probability of 0 is none
      expectSameBits(step, 2);
      step.set(0, 1, tokens - 5, kInfinity);  // with which it makes the one NaN, whatever the processor makes of it
      expectSameBits(step, 2);
    }
  }
  Step step = stepOf(DType::Float64, 2, 2, 10, 0);
  for (std::int64_t token = 0; token < 10; token++) step.set(0, 0, token, 1e308);  // overflows, and is not invalid
  step.set(1, 0, 3, kInfinity);
  expectSameBits(step, 1);
  // In rows of several pieces, behind which anything may stand.
  Step longRows = stepOf(DType::Float64, 1, 2, 40000, 0);
  for (std::int64_t token = 0; token < 10; token++) longRows.set(0, 0, token, 1e308);
  longRows.lengths = {35000, 40000};
  longRows.set(0, 0, 35000, std::numeric_limits<double>::quiet_NaN());
  expectSameBits(longRows, 1);
}

TEST_CASE("a file that ends too early, and one that cannot be read") {
  const Step step = stepOf(DType::Float32, 4, 8, 20000, 0);
  const auto bytes = static_cast<std::int64_t>(step.data.size());
  std::vector<double> sums(32);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t missing : {std::int64_t{1}, std::int64_t{700000}, bytes}) {
      const test::TemporaryFile file;
      file.write(step.data.data(), step.data.size(), kOffset);
      CHECK_EQUAL(ftruncate(file.fd, kOffset + bytes - missing), 0);
      JobControl control;
      InvalidToken invalid{7, 7, 7};
      ReadFailure failure{7, 7};
      CHECK(sumFileTokens(step.inFile(file.fd), {sums.data(), 4, nullptr}, pool, control, &invalid, &failure) ==
            Outcome::Done);
      CHECK_EQUAL(failure.error, 0);
      CHECK_EQUAL(failure.offset, kOffset + bytes - missing);
      CHECK_EQUAL(invalid.prompt, -1);
      CHECK(control.doneUnits.load() < control.totalUnits.load());
    }
    const int writeOnly = open("/dev/null", O_WRONLY);
    JobControl control;
    InvalidToken invalid;
    ReadFailure failure;
    sumFileTokens(step.inFile(writeOnly), {sums.data(), 4, nullptr}, pool, control, &invalid, &failure);
    CHECK_EQUAL(failure.error, EBADF);
    close(writeOnly);
  }
}

// Of all tokens only the first two are not zero, and overflow together: there is nothing to find, in 256 MiB of a hole.
TEST_CASE("the search for the invalid token ends when it is cancelled, and tells what it could not read") {
  const std::int64_t length = test::kSanitized ? 1 << 22 : 1 << 25;
  ThreadPool pool(1);
  for (const bool cancels : {true, false}) {
    bool came = false;
    // The other thread may come too late.
    for (int attempt = 0; attempt < 50 && !came; attempt++) {
      const test::TemporaryFile file;
      const double tokens[] = {1e308, 1e308};
      file.write(tokens, sizeof tokens, 0);
      CHECK_EQUAL(ftruncate(file.fd, length * 8), 0);
      JobControl control;
      std::thread other([&] {
        while (control.doneUnits < length) std::this_thread::yield();
        if (cancels) {
          control.cancelled = true;
        } else {
          CHECK_EQUAL(ftruncate(file.fd, 8), 0);
        }
      });
      double sum = 0;
      InvalidToken invalid;
      ReadFailure failure;
      const Outcome outcome = sumFileTokens({file.fd, 0, DType::Float64, 1, 1, length, &length}, {&sum, 1, nullptr},
                                            pool, control, &invalid, &failure);
      other.join();
      CHECK_EQUAL(invalid.prompt, -1);
      came = cancels ? outcome == Outcome::Cancelled : failure.offset >= 8;
    }
    CHECK(came);
  }
}

TEST_CASE("tokens past a row's length may be missing from the file") {
  // The last row that has any ends the file.
  const Step few = stepOf(DType::Float32, 1, 3, 30, 0);
  const std::int64_t lengths[] = {30, 10, 0};
  const test::TemporaryFile shortFile;
  shortFile.write(few.data.data(), (30 + 10) * 4, kOffset);
  {
    FileScores scores = few.inFile(shortFile.fd);
    scores.lengths = lengths;
    ThreadPool one(1);
    JobControl control;
    InvalidToken invalid;
    ReadFailure failure;
    double sums[3];
    sumFileTokens(scores, {sums, 1, nullptr}, one, control, &invalid, &failure);
    CHECK_EQUAL(failure.offset, std::int64_t{-1});
    CHECK(sums[0] < 0 && sums[1] < 0 && sums[2] == 0);
  }
  Step step = stepOf(DType::Float32, 1, 3, 30000, 0);
  step.lengths = {30000, 10, 20};
  const test::TemporaryFile file;
  file.write(step.data.data(), (60000 + 20) * 4, kOffset);
  ThreadPool pool(2);
  JobControl control;
  InvalidToken invalid;
  ReadFailure failure;
  double sums[3], expected[3];
  sumFileTokens(step.inFile(file.fd), {sums, 1, nullptr}, pool, control, &invalid, &failure);
  CHECK_EQUAL(failure.offset, std::int64_t{-1});
  sumTokens(step.inMemory(), {expected, 1, nullptr}, pool, control, &invalid);
  for (int row = 0; row < 3; row++) CHECK_EQUAL(sums[row], expected[row]);
}

TEST_CASE("a cancelled job stops") {
  const Step step = stepOf(DType::Float32, 4, 8, 20000, 0);
  const test::TemporaryFile file;
  file.write(step.data.data(), step.data.size(), kOffset);
  std::vector<double> sums(32);
  ThreadPool pool(2);
  JobControl cancelled;
  cancelled.cancelled = true;
  InvalidToken invalid{7, 7, 7};
  ReadFailure failure{7, 7};
  CHECK(sumFileTokens(step.inFile(file.fd), {sums.data(), 4, nullptr}, pool, cancelled, &invalid, &failure) ==
        Outcome::Cancelled);
  CHECK_EQUAL(failure.offset, std::int64_t{-1});
  CHECK_EQUAL(invalid.prompt, -1);
}

int main() { return collapsar::test::runCases(); }
