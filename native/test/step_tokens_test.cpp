// A step that comes in blocks against sumTokens of the whole, bit by bit: any cuts, order, dtype and strides, with
// blocks that are taken back, cancelled or forgotten on the way.
#include "engine/tokens/step_tokens.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "check.h"
#include "engine/tokens/sum_tokens.h"
#include "engine/tokens/take_block.h"
#include "random_numbers.h"

using namespace collapsar;
using collapsar::test::Elements;
using collapsar::test::Numbers;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Box {
  std::vector<std::int32_t> prompts, rows;
  TokenSpan tokens;
};

std::vector<std::int32_t> shuffled(std::vector<std::int32_t> values, Numbers& numbers) {
  for (std::size_t i = values.size(); i > 1; i--)
    std::swap(values[i - 1], values[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i)))]);
  return values;
}

class Step {
 public:
  Step(DType dtype, std::int64_t prompts, std::vector<std::int64_t> rowLengths, double spoilt, Numbers& numbers)
      : dtype(dtype),
        prompts(prompts),
        lengths(std::move(rowLengths)),
        rows(static_cast<std::int64_t>(lengths.size())),
        longest(*std::max_element(lengths.begin(), lengths.end())),
        values(static_cast<std::size_t>(prompts * rows * longest), kNaN) {
    for (std::int64_t p = 0; p < prompts; p++) {
      for (std::int64_t r = 0; r < rows; r++) {
        for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(r)]; t++) {
          double& value = values[place(p, r, t)];
          value = -8 * numbers.uniform();
          if (numbers.uniform() < spoilt)
            value = numbers.uniform() < 0.4 ? kNaN : numbers.uniform() < 0.5 ? kInfinity : -kInfinity;
        }
      }
    }
  }

  std::size_t place(std::int64_t p, std::int64_t r, std::int64_t t) const {
    return static_cast<std::size_t>((p * rows + r) * longest + t);
  }

  std::vector<double> whole(InvalidToken* invalid) const {
    Elements elements(dtype, static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); i++) elements.set(static_cast<std::int64_t>(i), values[i]);
    std::vector<double> sums(static_cast<std::size_t>(prompts * rows));
    ThreadPool pool(1);
    JobControl control;
    sumTokens({elements.data(), dtype, prompts, rows, rows * longest, longest, 1, lengths.data(), nullptr},
              {sums.data(), prompts, nullptr}, pool, control, invalid);
    return sums;
  }

  DType dtype;
  std::int64_t prompts;
  std::vector<std::int64_t> lengths;
  std::int64_t rows, longest;
  std::vector<double> values;
};

// Computes a claimed block from memory of its own, laid out in some way and gone afterwards.
Outcome take(const StepTokens& tokens, TokenBlock& block, const Step& step, const Box& box, Numbers& numbers,
             ThreadPool& pool, bool cancelled = false) {
  const auto p = static_cast<std::int64_t>(box.prompts.size()), r = static_cast<std::int64_t>(box.rows.size());
  const std::int64_t t = std::min(box.tokens.to, step.longest) - box.tokens.from;
  TokenScores scores{};
  scores.dtype = step.dtype;
  scores.prompts = p;
  scores.rows = r;
  switch (numbers.below(3)) {
    case 0:
      scores.promptStride = r * t, scores.rowStride = t, scores.tokenStride = 1;
      break;
    case 1:
      scores.promptStride = 1, scores.rowStride = p, scores.tokenStride = p * r;
      break;
    default:
      scores.promptStride = t, scores.rowStride = p * t, scores.tokenStride = 1;
  }
  Elements elements(step.dtype, p * r * t);
  std::vector<std::int64_t> wholeLengths;
  for (const std::int32_t row : box.rows) {
    const std::int64_t length = step.lengths[static_cast<std::size_t>(row)];
    wholeLengths.push_back(box.tokens.from == 0 && box.tokens.to >= length ? length : 0);
  }
  for (std::int64_t i = 0; i < p; i++) {
    for (std::int64_t j = 0; j < r; j++) {
      for (std::int64_t k = 0; k < t; k++) {
        elements.set(i * scores.promptStride + j * scores.rowStride + k * scores.tokenStride,
                     step.values[step.place(box.prompts[static_cast<std::size_t>(i)],
                                            box.rows[static_cast<std::size_t>(j)], box.tokens.from + k)]);
      }
    }
  }
  scores.data = elements.data();
  scores.lengths = wholeLengths.data();
  JobControl control;
  control.cancelled = cancelled;
  return takeTokens(tokens, block, scores, pool, control);
}

// Boxes that together hold every token once, in some order.
std::vector<Box> partition(const Step& step, Numbers& numbers) {
  const auto halves = [&](std::int64_t count) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    all = shuffled(all, numbers);
    const std::int64_t cut = numbers.below(count + 1);
    return std::vector<std::vector<std::int32_t>>{{all.begin(), all.begin() + cut}, {all.begin() + cut, all.end()}};
  };
  std::vector<Box> boxes;
  for (const std::vector<std::int32_t>& prompts : halves(step.prompts)) {
    for (const std::vector<std::int32_t>& rows : halves(step.rows)) {
      if (prompts.empty() || rows.empty()) continue;
      std::set<std::int64_t> cuts{0, std::max<std::int64_t>(step.longest, 1)};
      for (std::int64_t more = numbers.below(6); more > 0; more--) {
        const std::int64_t leaf = 4096 * (1 + numbers.below(2));
        const std::int64_t cut = numbers.below(3) == 0 ? leaf : numbers.below(step.longest + 1);
        if (cut < step.longest) cuts.insert(cut);
      }
      for (auto next = std::next(cuts.begin()); next != cuts.end(); ++next)
        boxes.push_back({prompts, rows, {*std::prev(next), *next}});
    }
  }
  for (std::size_t i = boxes.size(); i > 1; i--)
    std::swap(boxes[i - 1], boxes[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i)))]);
  return boxes;
}

// What step_tokens.h says waits after these boxes: rows that have begun, and tokens ahead of others of their leaf.
struct Waiting {
  std::int64_t pairs = 0, tokens = 0;
};
Waiting waitingAfter(const Step& step, const std::vector<Box>& boxes) {
  Waiting waiting;
  for (std::int64_t p = 0; p < step.prompts; p++) {
    for (std::int64_t r = 0; r < step.rows; r++) {
      const std::int64_t length = step.lengths[static_cast<std::size_t>(r)];
      std::vector<bool> come(static_cast<std::size_t>(length));
      std::int64_t count = 0;
      for (const Box& box : boxes) {
        if (std::count(box.prompts.begin(), box.prompts.end(), p) == 0) continue;
        if (std::count(box.rows.begin(), box.rows.end(), r) == 0) continue;
        for (std::int64_t t = box.tokens.from; t < std::min(box.tokens.to, length); t++, count++)
          come[static_cast<std::size_t>(t)] = true;
      }
      waiting.pairs += count > 0 && count < length;
      for (std::int64_t leaf = 0; leaf < length; leaf += 4096) {
        bool gap = false;
        for (std::int64_t t = leaf; t < std::min(leaf + 4096, length); t++) {
          gap |= !come[static_cast<std::size_t>(t)];
          waiting.tokens += gap && come[static_cast<std::size_t>(t)];
        }
      }
    }
  }
  return waiting;
}

bool refused(StepTokens& tokens, const Box& box, DType dtype) {
  try {
    tokens.claim(box.prompts, box.rows, box.tokens, dtype);
    return false;
  } catch (const BlockRefusal&) {
    return true;
  }
}

void checkWhole(StepTokens& tokens, const Step& step) {
  InvalidToken invalid;
  const std::vector<double> expected = step.whole(&invalid);
  for (std::int64_t prompt = 0; prompt < step.prompts; prompt++) CHECK_EQUAL(tokens.missing(prompt, nullptr).rows, 0);
  tokens.markMissing();
  for (std::size_t i = 0; i < expected.size(); i++)
    CHECK_EQUAL(std::bit_cast<std::uint64_t>(tokens.sums()[i]), std::bit_cast<std::uint64_t>(expected[i]));
  const auto first = tokens.invalid().begin();
  CHECK_EQUAL(first == tokens.invalid().end(), invalid.prompt < 0);
  if (invalid.prompt >= 0 && first != tokens.invalid().end()) {
    CHECK_EQUAL(first->first, invalid.prompt * step.rows + invalid.row);
    CHECK_EQUAL(first->second, invalid.token);
  }
  CHECK_EQUAL(tokens.begunPairs(), 0);
  CHECK_EQUAL(tokens.waitingTokens(), 0);
  CHECK_EQUAL(tokens.heldBytes(), 0);
}

Step randomStep(Numbers& numbers) {
  constexpr std::int64_t kLengths[] = {0, 1, 5, 31, 33, 64, 100, 300, 4095, 4096, 4097, 8192, 9000};
  const bool isLong = numbers.below(4) == 0;
  std::vector<std::int64_t> lengths;
  for (std::int64_t rows = 1 + numbers.below(isLong ? 3 : 7); rows > 0; rows--)
    lengths.push_back(kLengths[numbers.below(isLong ? 13 : 8)]);
  const double spoilt = numbers.below(3) == 0 ? 0.01 : 0;
  return Step(test::kAllTypes[numbers.below(4)], 1 + numbers.below(4), lengths, spoilt, numbers);
}

constexpr int kRuns = test::kSanitized ? 60 : 400;

}  // namespace

TEST_CASE("blocks of any cut and order give the bits of the whole, and hold what they say") {
  Numbers numbers(21);
  ThreadPool pool(2);
  for (int run = 0; run < kRuns; run++) {
    const Step step = randomStep(numbers);
    std::vector<double> sums(static_cast<std::size_t>(step.prompts * step.rows));
    StepTokens tokens(step.prompts, step.lengths, sums.data());
    std::vector<Box> taken;
    for (const Box& box : partition(step, numbers)) {
      if (numbers.below(4) == 0) {
        // Cancelled, or taken back: as if it had not come.
        const auto block = tokens.claim(box.prompts, box.rows, box.tokens, step.dtype);
        if (numbers.below(2) == 0) take(tokens, *block, step, box, numbers, pool, numbers.below(2) == 0);
        tokens.unclaim(*block);
      }
      const auto block = tokens.claim(box.prompts, box.rows, box.tokens, step.dtype);
      CHECK(take(tokens, *block, step, box, numbers, pool) == Outcome::Done);
      tokens.commit(*block, nullptr);
      taken.push_back(box);
      const Waiting waiting = waitingAfter(step, taken);
      CHECK_EQUAL(tokens.begunPairs(), waiting.pairs);
      CHECK_EQUAL(tokens.waitingTokens(), waiting.tokens);
      CHECK((tokens.heldBytes() > 0) == (waiting.pairs > 0));
    }
    checkWhole(tokens, step);
  }
}

TEST_CASE("blocks that are claimed together are computed one after the other") {
  Numbers numbers(22);
  ThreadPool pool(1);
  for (int run = 0; run < kRuns / 4; run++) {
    const Step step = randomStep(numbers);
    std::vector<double> sums(static_cast<std::size_t>(step.prompts * step.rows));
    StepTokens tokens(step.prompts, step.lengths, sums.data());
    const std::vector<Box> boxes = partition(step, numbers);
    std::vector<std::shared_ptr<TokenBlock>> blocks;
    for (const Box& box : boxes) blocks.push_back(tokens.claim(box.prompts, box.rows, box.tokens, step.dtype));
    for (std::int64_t prompt = 0; prompt < step.prompts; prompt++) {
      CHECK_EQUAL(tokens.missing(prompt, nullptr).rows, 0);  // all is on its way
      for (std::int64_t row = 0; row < step.rows; row++) {
        const bool has = step.lengths[static_cast<std::size_t>(row)] > 0;
        CHECK_EQUAL(tokens.firstGiven(prompt, row), has ? 0 : -1);
        const Box again{{static_cast<std::int32_t>(prompt)}, {static_cast<std::int32_t>(row)}, {0, 1}};
        CHECK_EQUAL(refused(tokens, again, step.dtype), has);
      }
    }
    for (std::size_t i = 0; i < boxes.size(); i++) {
      take(tokens, *blocks[i], step, boxes[i], numbers, pool);
      tokens.commit(*blocks[i], nullptr);
    }
    checkWhole(tokens, step);
  }
}

TEST_CASE("what is forgotten may come again, of other numbers") {
  Numbers numbers(23);
  ThreadPool pool(2);
  for (int run = 0; run < kRuns / 2; run++) {
    const Step step = randomStep(numbers);
    Step wrong = step;
    for (double& value : wrong.values) value = numbers.below(5) == 0 ? kNaN : value - 1;
    std::vector<double> sums(static_cast<std::size_t>(step.prompts * step.rows));
    StepTokens tokens(step.prompts, step.lengths, sums.data());
    std::vector<std::uint8_t> touched(sums.size());
    const std::vector<Box> boxes = partition(step, numbers);
    std::vector<bool> isWrong;
    for (const Box& box : boxes) {
      isWrong.push_back(numbers.below(2) == 0);
      const auto block = tokens.claim(box.prompts, box.rows, box.tokens, step.dtype);
      take(tokens, *block, isWrong.back() ? wrong : step, box, numbers, pool);
      tokens.commit(*block, isWrong.back() ? touched.data() : nullptr);
    }
    const std::vector<std::uint8_t> marked = touched;
    tokens.forget(touched.data());
    CHECK_EQUAL(std::count(touched.begin(), touched.end(), 1), 0);
    for (std::size_t i = 0; i < boxes.size(); i++) {
      for (const std::int32_t prompt : boxes[i].prompts) {
        for (const std::int32_t row : boxes[i].rows) {
          if (boxes[i].tokens.from >= step.lengths[static_cast<std::size_t>(row)]) continue;
          const bool gone = marked[static_cast<std::size_t>(prompt * step.rows + row)] != 0;
          const Box one{{prompt}, {row}, boxes[i].tokens};
          CHECK_EQUAL(refused(tokens, one, step.dtype), !gone);
        }
      }
    }
  }
}

TEST_CASE("of pieces of a row each refuses its tokens, and gives them back alone") {
  std::vector<double> sums(4);
  StepTokens tokens(2, {20, 20}, sums.data());
  const auto piece = [](std::int64_t from, std::int64_t to) { return Box{{1}, {1}, {from, to}}; };
  const auto claim = [&](std::int64_t from, std::int64_t to) {
    return tokens.claim({1}, {1}, {from, to}, DType::Float32);
  };
  const auto first = claim(4, 8), second = claim(12, 16), third = claim(8, 10);
  for (const std::int64_t to : {8, 16, 10}) CHECK(refused(tokens, piece(to - 1, to + 1), DType::Float32));
  CHECK(refused(tokens, piece(0, 20), DType::Float32));
  CHECK_EQUAL(tokens.firstGiven(1, 1), 4);
  const MissingTokens missing = tokens.missing(1, nullptr);
  CHECK_EQUAL(missing.rows, 2);
  CHECK_EQUAL(missing.row, 0);
  const std::vector<std::int32_t> one{1};
  CHECK_EQUAL(tokens.missing(1, &one).tokens.to, 4);
  CHECK(!tokens.missing(1, &one).untouched);
  CHECK(tokens.missing(0, nullptr).untouched);
  CHECK(refused(tokens, piece(16, 20), DType::Float16));  // the others came as float32
  tokens.unclaim(*first);
  CHECK_EQUAL(tokens.firstGiven(1, 1), 8);
  CHECK(refused(tokens, piece(7, 9), DType::Float32));
  tokens.unclaim(*second);
  tokens.unclaim(*third);
  CHECK_EQUAL(tokens.begunPairs(), 0);
  CHECK_EQUAL(tokens.firstGiven(1, 1), -1);
  const auto whole = claim(0, 1000);
  CHECK_EQUAL(tokens.missing(1, &one).rows, 0);
  tokens.unclaim(*whole);
  CHECK_EQUAL(tokens.missing(1, &one).tokens.to, 20);
}

int main() { return collapsar::test::runCases(); }
