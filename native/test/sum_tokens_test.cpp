// sumTokens against a plain restatement of its lane layout (bits) and against long double (accuracy), over layouts and
// types.
#include "engine/tokens/sum_tokens.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "check.h"
#include "random_numbers.h"

using namespace collapsar;
using collapsar::test::Elements;
using collapsar::test::Numbers;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What the header promises, in the plainest form.
double laneSum(const std::vector<double>& tokens) {
  double total = 0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += 4096) {
    double lanes[32] = {};
    for (std::size_t t = 0; t < 4096 && begin + t < tokens.size(); t++) lanes[t % 32] += tokens[begin + t];
    for (std::size_t half = 16; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    }
    total += lanes[0];
  }
  return total;
}

// A step of scores in some layout, its other elements NaN, so that a read beyond a row's length shows.
struct Step {
  Elements elements;
  TokenScores scores;
  std::vector<std::int64_t> lengths, offsets;
  std::int64_t base = 0;

  Step(DType dtype, std::int64_t size) : elements(dtype, size), scores{} {
    for (std::int64_t i = 0; i < size; i++) elements.set(i, kNaN);
    scores.dtype = dtype;
  }
  std::int64_t at(std::int64_t prompt, std::int64_t row, std::int64_t token) const {
    const std::int64_t start =
        offsets.empty() ? row * scores.rowStride : offsets[static_cast<std::size_t>(row)] * scores.tokenStride;
    return base + prompt * scores.promptStride + start + token * scores.tokenStride;
  }
  void ready() {
    scores.data =
        static_cast<const unsigned char*>(elements.data()) + base * static_cast<std::int64_t>(sizeOf(scores.dtype));
    scores.lengths = lengths.data();
    scores.rowOffsets = offsets.empty() ? nullptr : offsets.data();
  }
  void fill(Numbers& numbers) {
    for (std::int64_t p = 0; p < scores.prompts; p++) {
      for (std::int64_t r = 0; r < scores.rows; r++) {
        for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(r)]; t++) {
          elements.set(at(p, r, t), -numbers.uniform() * 8);
        }
      }
    }
  }
};

enum Layout { kPromptRowToken, kRowPromptToken, kPromptTokenRow, kTokenRowPrompt, kBackwards, kPacked, kLayouts };

Step makeStep(DType dtype, Layout layout, std::int64_t prompts, std::int64_t rows, std::int64_t tokens,
              Numbers& numbers) {
  Step step(dtype, prompts * rows * tokens);
  TokenScores& s = step.scores;
  s.prompts = prompts;
  s.rows = rows;
  for (std::int64_t r = 0; r < rows; r++) step.lengths.push_back(numbers.below(tokens + 1));
  if (rows > 1) step.lengths[1] = tokens;
  switch (layout) {
    case kPromptRowToken:
      s.promptStride = rows * tokens, s.rowStride = tokens, s.tokenStride = 1;
      break;
    case kRowPromptToken:
      s.promptStride = tokens, s.rowStride = prompts * tokens, s.tokenStride = 1;
      break;
    case kPromptTokenRow:
      s.promptStride = rows * tokens, s.rowStride = 1, s.tokenStride = rows;
      break;
    case kTokenRowPrompt:
      s.promptStride = 1, s.rowStride = prompts, s.tokenStride = prompts * rows;
      break;
    case kBackwards:
      s.promptStride = -rows * tokens, s.rowStride = -tokens, s.tokenStride = -1;
      step.base = prompts * rows * tokens - 1;
      break;
    default: {
      s.promptStride = 0, s.rowStride = 0, s.tokenStride = 1;
      std::int64_t offset = 0;
      for (const std::int64_t length : step.lengths) {
        step.offsets.push_back(offset);
        offset += length;
      }
      s.promptStride = offset;
    }
  }
  step.fill(numbers);
  step.ready();
  return step;
}

std::vector<double> sums(const Step& step, int threads = 2, InvalidToken* invalid = nullptr) {
  const std::int64_t prompts = step.scores.prompts, rows = step.scores.rows;
  std::vector<double> out(static_cast<std::size_t>(prompts * rows), -1.0);
  ThreadPool pool(threads);
  JobControl control;
  CHECK(sumTokens(step.scores, {out.data(), prompts, nullptr}, pool, control, invalid) == Outcome::Done);
  CHECK_EQUAL(control.doneUnits.load(), control.totalUnits.load());
  return out;
}

}  // namespace

TEST_CASE("every layout, type and length adds as the lane layout says") {
  Numbers numbers(11);
  const std::int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 31},   {3, 5, 33},   {5, 7, 100}, {4, 19, 64}, {2, 3, 4095},
                                    {1, 2, 4097}, {2, 2, 9000}, {17, 40, 12}, {3, 3, 0},   {3, 70, 16}, {9, 530, 40},
                                    {3, 61, 90},  {2, 50, 300}, {2, 9, 1024}, {2, 9, 1500}};
  for (const DType dtype : test::kAllTypes) {
    for (int layout = 0; layout < kLayouts; layout++) {
      for (const auto& shape : shapes) {
        const Step step = makeStep(dtype, static_cast<Layout>(layout), shape[0], shape[1], shape[2], numbers);
        const std::vector<double> actual = sums(step, 1 + static_cast<int>(numbers.below(3)));
        for (std::int64_t p = 0; p < shape[0]; p++) {
          for (std::int64_t r = 0; r < shape[1]; r++) {
            std::vector<double> tokens;
            long double exact = 0;
            for (std::int64_t t = 0; t < step.lengths[static_cast<std::size_t>(r)]; t++) {
              tokens.push_back(step.elements.get(step.at(p, r, t)));
              exact += tokens.back();
            }
            const double sum = actual[static_cast<std::size_t>(r * shape[0] + p)];
            CHECK_EQUAL(sum, laneSum(tokens), "layout ", layout, " type ", static_cast<int>(dtype), " length ",
                        tokens.size());
            CHECK_NEAR(sum, static_cast<double>(exact), 1e-14 * std::abs(static_cast<double>(exact)));
          }
        }
      }
    }
  }
}

TEST_CASE("an empty row sums to plus zero, and so do minus zeros") {
  for (const DType dtype : test::kAllTypes) {
    Elements none(dtype, 2000);
    for (std::int64_t i = 0; i < 2000; i++) none.set(i, -0.0);
    for (const std::int64_t longest : {3, 16, 17, 90, 700, 2000}) {
      const std::int64_t lengths[] = {0, 1, longest / 2, longest, longest, 0, longest / 3, 2, longest};
      const TokenScores scores{none.data(), dtype, 1, 9, 0, 0, 1, lengths, nullptr};
      std::vector<double> out(9, 5.0);
      ThreadPool pool(1);
      JobControl control;
      sumTokens(scores, {out.data(), 1, nullptr}, pool, control, nullptr);
      for (const double sum : out) {
        CHECK_EQUAL(sum, 0.0);
        CHECK(!std::signbit(sum));
      }
    }
  }
}

TEST_CASE("columns go where the caller wants them, and the others stay as they are") {
  Numbers numbers(12);
  const Step step = makeStep(DType::Float64, kPromptRowToken, 3, 4, 10, numbers);
  const std::vector<double> plain = sums(step);
  const std::int32_t columnOf[] = {4, 0, 2};
  std::vector<double> out(4 * 5, 77.0);
  ThreadPool pool(2);
  JobControl control;
  sumTokens(step.scores, {out.data(), 5, columnOf}, pool, control, nullptr);
  for (std::size_t r = 0; r < 4; r++) {
    for (std::size_t p = 0; p < 3; p++) {
      CHECK_EQUAL(out[r * 5 + static_cast<std::size_t>(columnOf[p])], plain[r * 3 + p]);
    }
    CHECK_EQUAL(out[r * 5 + 1], 77.0);
    CHECK_EQUAL(out[r * 5 + 3], 77.0);
  }
}

TEST_CASE("zero strides repeat a score") {
  Elements one(DType::BFloat16, 1);
  one.set(0, -1.5);
  const std::int64_t lengths[] = {1000, 0, 7};
  const TokenScores scores{one.data(), DType::BFloat16, 2, 3, 0, 0, 0, lengths, nullptr};
  double out[6];
  ThreadPool pool(2);
  JobControl control;
  sumTokens(scores, {out, 2, nullptr}, pool, control, nullptr);
  CHECK_EQUAL(out[0], -1500.0);
  CHECK_EQUAL(out[2], 0.0);
  CHECK_EQUAL(out[5], -10.5);
}

// Memory with a page on each side that nobody may read.
class Fenced {
 public:
  // `bytes` of it, at its end or at its beginning.
  Fenced(const void* data, std::size_t bytes, bool atEnd)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), size_((bytes + page_ - 1) / page_ * page_ + 2 * page_) {
    void* const all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    all_ = all == MAP_FAILED ? nullptr : static_cast<char*>(all);
    CHECK(all_ != nullptr && mprotect(all_ + page_, size_ - 2 * page_, PROT_READ | PROT_WRITE) == 0);
    data_ = atEnd ? all_ + size_ - page_ - bytes : all_ + page_;
    std::memcpy(data_, data, bytes);
  }
  ~Fenced() { munmap(all_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  const char* data() const { return data_; }

 private:
  std::size_t page_, size_;
  char *all_, *data_;
};

constexpr std::int64_t kFarShapes[][3] = {{3, 5, 40}, {2, 19, 600}, {1, 3, 5000}};

// Of tokens side by side the kernels' masked loads are emulated in ways that look at the address all the same.
TEST_CASE("of tokens that are far apart none but those of its length is read") {
  Numbers numbers(17);
  for (const DType dtype : test::kAllTypes) {
    for (const Layout layout : {kPromptTokenRow, kTokenRowPrompt, kBackwards}) {
      for (const auto& [prompts, rows, tokens] : kFarShapes) {
        Step step = makeStep(dtype, layout, prompts, rows, tokens, numbers);
        step.lengths = {tokens / 3};
        for (std::int64_t row = 1; row < rows; row++) step.lengths.push_back(numbers.below(tokens / 2) + 1);
        step.fill(numbers);
        step.ready();
        const std::vector<double> expected = sums(step, 1);
        std::int64_t first = step.base, last = step.base;
        for (std::int64_t p = 0; p < prompts; p++) {
          for (std::int64_t r = 0; r < rows; r++) {
            const std::int64_t length = step.lengths[static_cast<std::size_t>(r)];
            for (const std::int64_t end : {step.at(p, r, 0), step.at(p, r, length - 1)}) {
              first = std::min(first, end);
              last = std::max(last, end);
            }
          }
        }
        const auto size = static_cast<std::int64_t>(sizeOf(dtype));
        const char* const all = static_cast<const char*>(step.elements.data());
        for (const bool atEnd : {true, false}) {
          const Fenced fenced(all + first * size, static_cast<std::size_t>((last - first + 1) * size), atEnd);
          step.scores.data = fenced.data() + (step.base - first) * size;
          CHECK(sums(step, 2) == expected);
        }
      }
    }
  }
}

TEST_CASE("the first invalid token is named, whoever finds it") {
  Numbers numbers(13);
  for (const DType dtype : test::kAllTypes) {
    for (int layout = 0; layout < kLayouts; layout++) {
      Step step = makeStep(dtype, static_cast<Layout>(layout), 6, 9, 50, numbers);
      InvalidToken found;
      sums(step, 3, &found);
      CHECK(found.prompt < 0);

      step.elements.set(step.at(2, 1, 40), -kInfinity);  // legitimate
      const std::vector<double> fine = sums(step, 3, &found);
      CHECK(found.prompt < 0);
      CHECK_EQUAL(fine[1 * 6 + 2], -kInfinity);

      for (const double bad : {kNaN, kInfinity}) {
        step.elements.set(step.at(5, 1, 3), bad);
        step.elements.set(step.at(4, 1, 49), bad);
        step.elements.set(step.at(4, 1, 48), bad);
        const std::vector<double> actual = sums(step, 3, &found);
        CHECK_EQUAL(found.prompt, 4);
        CHECK_EQUAL(found.row, 1);
        CHECK_EQUAL(found.token, 48);
        CHECK_EQUAL(actual[1 * 6 + 4], bad);
        CHECK_EQUAL(actual[1 * 6 + 5], bad);
        CHECK_EQUAL(actual[1 * 6 + 3], fine[1 * 6 + 3]);
      }
      // +inf and -inf in one row: NaN, and the +inf is to blame.
      step.elements.set(step.at(2, 1, 45), kInfinity);
      CHECK_EQUAL(sums(step, 3, &found)[1 * 6 + 2], kNaN);
      CHECK_EQUAL(found.prompt, 2);
      CHECK_EQUAL(found.token, 45);
    }
  }
}

TEST_CASE("the first invalid token is found at any place of a long row") {
  Numbers numbers(16);
  for (const std::int64_t place : {0, 4095, 4096, 4097, 8191, 8192, 8999}) {
    Step step = makeStep(DType::Float32, kPromptRowToken, 1, 2, 9000, numbers);
    step.elements.set(step.at(0, 1, place), kNaN);
    InvalidToken found;
    sums(step, 1, &found);
    CHECK_EQUAL(found.row, 1);
    CHECK_EQUAL(found.token, place);
  }
}

TEST_CASE("a sum that overflows does not hide the invalid token behind it") {
  Elements values(DType::Float64, 6);
  for (std::int64_t i = 0; i < 6; i++) values.set(i, 1e308);
  const std::int64_t lengths[] = {3, 3};
  const TokenScores scores{values.data(), DType::Float64, 1, 2, 6, 3, 1, lengths, nullptr};
  double out[2];
  ThreadPool pool(1);
  JobControl control;
  InvalidToken found;
  sumTokens(scores, {out, 1, nullptr}, pool, control, &found);
  CHECK_EQUAL(out[0], kInfinity);
  CHECK(found.prompt < 0);
  values.set(4, kNaN);
  sumTokens(scores, {out, 1, nullptr}, pool, control, &found);
  CHECK_EQUAL(found.row, 1);
  CHECK_EQUAL(found.token, 1);
}

TEST_CASE("many tiles, and nothing at all") {
  Numbers numbers(14);
  const Step large = makeStep(DType::Float32, kPromptRowToken, 9, 300, 700, numbers);
  const std::vector<double> one = sums(large, 1), five = sums(large, 5);
  CHECK(one == five);
  Step wide = makeStep(DType::Float32, kRowPromptToken, 300, 9, 700, numbers);
  CHECK(sums(wide, 1) == sums(wide, 4));
  CHECK(sums(makeStep(DType::Float32, kPromptRowToken, 0, 3, 5, numbers)).empty());
  CHECK(sums(makeStep(DType::Float32, kPromptRowToken, 3, 0, 5, numbers)).empty());
}

TEST_CASE("a cancelled job says so") {
  Numbers numbers(15);
  const Step step = makeStep(DType::Float32, kPromptRowToken, 4, 300, 700, numbers);
  std::vector<double> out(4 * 300);
  ThreadPool pool(2);
  JobControl control;
  control.cancelled = true;
  CHECK(sumTokens(step.scores, {out.data(), 4, nullptr}, pool, control, nullptr) == Outcome::Cancelled);
  CHECK_EQUAL(control.doneUnits.load(), 0);
}

TEST_CASE("a job that is cancelled while it looks for the invalid token ends soon") {
  // One finite element for all tokens, so that the sum overflows and there is nothing to find.
  const double element = 1e308;
  const std::int64_t length = std::int64_t{1} << 28;
  TokenScores scores{};
  scores.data = &element;
  scores.dtype = DType::Float64;
  scores.prompts = scores.rows = 1;
  scores.lengths = &length;
  double sum = 0;
  JobControl control;
  std::thread canceller([&] {
    while (control.doneUnits < length) std::this_thread::yield();
    control.cancelled = true;
  });
  ThreadPool pool(1);
  InvalidToken invalid;
  CHECK(sumTokens(scores, {&sum, 1, nullptr}, pool, control, &invalid) == Outcome::Cancelled);
  canceller.join();
}

int main() { return collapsar::test::runCases(); }
