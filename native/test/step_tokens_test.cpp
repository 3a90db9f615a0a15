// A step that comes in blocks against sumTokens of the whole, bit by bit: any cuts, order, dtype and strides, with
// blocks that are taken back, cancelled, forgotten or left without memory on the way.
#include "engine/tokens/step_tokens.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
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

// There is memory for so many allocations, and then once none; < 0: always.
std::atomic<int> allocationsLeft{-1};

}  // namespace

// Not inlined: GCC takes what it sees through for memory of one kind that is given back as another.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocationsLeft >= 0 && allocationsLeft-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
  // spoilt: the share of tokens that are special; huge: of these, the share that only overflows a float64 sum.
  Step(DType dtype, std::int64_t prompts, std::vector<std::int64_t> rowLengths, double spoilt, double huge,
       Numbers& numbers)
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
          if (numbers.uniform() >= spoilt) continue;
          if (numbers.uniform() < huge) {
            value = 1e308;
          } else {
            value = numbers.uniform() < 0.4 ? kNaN : numbers.uniform() < 0.5 ? kInfinity : -kInfinity;
          }
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

// A box's tokens in memory of their own, laid out in some way.
class Given {
 public:
  Given(const Step& step, const Box& box, Numbers& numbers)
      : p_(static_cast<std::int64_t>(box.prompts.size())),
        r_(static_cast<std::int64_t>(box.rows.size())),
        t_(std::min(box.tokens.to, step.longest) - box.tokens.from),
        elements_(step.dtype, p_ * r_ * t_) {
    bool allWhole = true;
    std::int64_t packed = 0;
    for (const std::int32_t row : box.rows) {
      const std::int64_t length = step.lengths[static_cast<std::size_t>(row)];
      const bool isWhole = box.tokens.from == 0 && box.tokens.to >= length;
      wholeLengths_.push_back(isWhole ? length : 0);
      offsets_.push_back(packed);
      packed += length;
      allWhole &= isWhole;
    }
    scores_.dtype = step.dtype;
    scores_.prompts = p_;
    scores_.rows = r_;
    scores_.tokenStride = 1;
    const std::int64_t layout = numbers.below(allWhole ? 4 : 3);
    switch (layout) {
      case 0:
        scores_.promptStride = r_ * t_, scores_.rowStride = t_;
        break;
      case 1:
        scores_.promptStride = 1, scores_.rowStride = p_, scores_.tokenStride = p_ * r_;
        break;
      case 2:
        scores_.promptStride = t_, scores_.rowStride = p_ * t_;
        break;
      default:
        scores_.promptStride = packed;
        scores_.rowOffsets = offsets_.data();
    }
    scores_.lengths = wholeLengths_.data();
    for (std::int64_t i = 0; i < p_; i++) {
      for (std::int64_t j = 0; j < r_; j++) {
        const std::int64_t start = segmentStart(scores_, i, j);
        const auto prompt = box.prompts[static_cast<std::size_t>(i)], row = box.rows[static_cast<std::size_t>(j)];
        const std::int64_t there = layout == 3 ? wholeLengths_[static_cast<std::size_t>(j)] : t_;
        for (std::int64_t k = 0; k < there; k++)
          elements_.set(start + k * scores_.tokenStride, step.values[step.place(prompt, row, box.tokens.from + k)]);
      }
    }
    scores_.data = elements_.data();
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

  const TokenScores& scores() const { return scores_; }

 private:
  std::int64_t p_, r_, t_;
  Elements elements_;
  std::vector<std::int64_t> wholeLengths_, offsets_;
  TokenScores scores_{};
};

// Computes a claimed block from memory that is gone afterwards.
Outcome take(const StepTokens& tokens, TokenBlock& block, const Step& step, const Box& box, Numbers& numbers,
             ThreadPool& pool, bool cancelled = false) {
  const Given given(step, box, numbers);
  JobControl control;
  control.cancelled = cancelled;
  return takeTokens(tokens, block, given.scores(), pool, control);
}

// Claims, computes and takes in.
void give(StepTokens& tokens, const Step& step, const Box& box, Numbers& numbers, ThreadPool& pool,
          std::uint8_t* touched = nullptr) {
  const auto block = tokens.claim(box.prompts, box.rows, box.tokens, step.dtype);
  CHECK(take(tokens, *block, step, box, numbers, pool) == Outcome::Done);
  tokens.commit(*block, touched);
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

// Which tokens of a row have come with these boxes.
std::vector<bool> comeWith(const Step& step, const std::vector<Box>& boxes, std::int64_t p, std::int64_t r) {
  const std::int64_t length = step.lengths[static_cast<std::size_t>(r)];
  std::vector<bool> come(static_cast<std::size_t>(length));
  for (const Box& box : boxes) {
    if (std::count(box.prompts.begin(), box.prompts.end(), p) == 0) continue;
    if (std::count(box.rows.begin(), box.rows.end(), r) == 0) continue;
    for (std::int64_t t = box.tokens.from; t < std::min(box.tokens.to, length); t++)
      come[static_cast<std::size_t>(t)] = true;
  }
  return come;
}

// After these boxes, by step_tokens.h: rows that have begun, tokens ahead of others of their leaf, and what is missing.
void checkHeld(const StepTokens& tokens, const Step& step, const std::vector<Box>& boxes) {
  std::int64_t pairs = 0, waiting = 0;
  for (std::int64_t p = 0; p < step.prompts; p++) {
    MissingTokens missing{};
    for (std::int64_t r = 0; r < step.rows; r++) {
      const std::vector<bool> come = comeWith(step, boxes, p, r);
      const auto length = static_cast<std::int64_t>(come.size());
      const std::int64_t count = std::count(come.begin(), come.end(), true);
      pairs += count > 0 && count < length;
      if (count > 0) missing.untouched = false;
      if (count < length && missing.rows++ == 0) {
        missing.row = r;
        missing.tokens.from = std::find(come.begin(), come.end(), false) - come.begin();
        missing.tokens.to = std::find(come.begin() + missing.tokens.from, come.end(), true) - come.begin();
      }
      for (std::int64_t leaf = 0; leaf < length; leaf += 4096) {
        bool gap = false;
        for (std::int64_t t = leaf; t < std::min(leaf + 4096, length); t++) {
          gap |= !come[static_cast<std::size_t>(t)];
          waiting += gap && come[static_cast<std::size_t>(t)];
        }
      }
    }
    const MissingTokens found = tokens.missing(p, nullptr);
    CHECK_EQUAL(found.rows, missing.rows);
    if (missing.rows == 0) continue;
    CHECK_EQUAL(found.row, missing.row);
    CHECK_EQUAL(found.tokens.from, missing.tokens.from);
    CHECK_EQUAL(found.tokens.to, missing.tokens.to);
    CHECK_EQUAL(found.untouched, missing.untouched);
  }
  CHECK_EQUAL(tokens.begunPairs(), pairs);
  CHECK_EQUAL(tokens.waitingTokens(), waiting);
  CHECK((tokens.heldBytes() > 0) == (pairs > 0));
}

bool refused(StepTokens& tokens, const Box& box, DType dtype) {
  try {
    tokens.unclaim(*tokens.claim(box.prompts, box.rows, box.tokens, dtype));
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
  const double spoilt = numbers.below(3) == 0 ? 0.01 : 0, huge = 0.5 * static_cast<double>(numbers.below(3));
  return Step(test::kAllTypes[numbers.below(4)], 1 + numbers.below(4), lengths, spoilt, huge, numbers);
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
        const bool isEmpty = block->whole.empty() && block->parts.empty(), cancelled = numbers.below(2) == 0;
        if (numbers.below(2) == 0) {
          const Outcome outcome = take(tokens, *block, step, box, numbers, pool, cancelled);
          CHECK(outcome == (cancelled && !isEmpty ? Outcome::Cancelled : Outcome::Done));
        }
        tokens.unclaim(*block);
      }
      give(tokens, step, box, numbers, pool);
      taken.push_back(box);
      checkHeld(tokens, step, taken);
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
    // Some of it has come by then: of rows that are complete, that have begun, and that have not.
    const auto come = boxes.begin() + numbers.below(static_cast<std::int64_t>(boxes.size()) + 1);
    for (auto box = boxes.begin(); box != come; ++box) {
      const bool isWrong = numbers.below(2) == 0;
      give(tokens, isWrong ? wrong : step, *box, numbers, pool, isWrong ? touched.data() : nullptr);
    }
    const std::vector<std::uint8_t> marked = touched;
    tokens.forget(touched.data());
    CHECK_EQUAL(std::count(touched.begin(), touched.end(), 1), 0);

    std::vector<Box> kept, again(come, boxes.end());
    for (auto box = boxes.begin(); box != come; ++box) {
      for (const std::int32_t prompt : box->prompts) {
        for (const std::int32_t row : box->rows) {
          const Box one{{prompt}, {row}, box->tokens};
          const bool gone = marked[static_cast<std::size_t>(prompt * step.rows + row)] != 0;
          (gone ? again : kept).push_back(one);
          if (one.tokens.from < step.lengths[static_cast<std::size_t>(row)])
            CHECK_EQUAL(refused(tokens, one, step.dtype), !gone);
        }
      }
    }
    checkHeld(tokens, step, kept);
    for (const auto& [pair, token] : tokens.invalid()) CHECK(marked[static_cast<std::size_t>(pair)] == 0);
    for (const Box& box : again) give(tokens, step, box, numbers, pool);
    checkWhole(tokens, step);
  }
}

TEST_CASE("a block for which memory runs out, anywhere, leaves the step as it was; to take one in needs none") {
  Numbers numbers(24);
  for (int run = 0; run < kRuns / 4; run++) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t rows = 1 + numbers.below(9); rows > 0; rows--) lengths.push_back(numbers.below(5) * 20);
    if (run % 8 == 0) lengths.push_back(9000);
    const Step step(test::kAllTypes[numbers.below(4)], 1 + numbers.below(2), lengths, run % 3 == 0 ? 0.05 : 0, 0,
                    numbers);
    std::vector<double> sums(static_cast<std::size_t>(step.prompts * step.rows));
    StepTokens tokens(step.prompts, step.lengths, sums.data());
    ThreadPool pool(1 + run % 2);
    std::vector<Box> taken;
    for (const Box& box : partition(step, numbers)) {
      const Given given(step, box, numbers);
      std::shared_ptr<TokenBlock> block;
      for (int allocations = 0; block == nullptr; allocations++) {
        std::vector<std::int32_t> prompts = box.prompts, rows = box.rows;
        JobControl control;
        allocationsLeft = allocations;
        try {
          block = tokens.claim(std::move(prompts), std::move(rows), box.tokens, step.dtype);
          CHECK(takeTokens(tokens, *block, given.scores(), pool, control) == Outcome::Done);
          allocationsLeft = -1;
        } catch (const std::bad_alloc&) {
          allocationsLeft = -1;
          if (block != nullptr) tokens.unclaim(*block);
          block = nullptr;
          checkHeld(tokens, step, taken);
        }
      }
      allocationsLeft = 0;
      tokens.commit(*block, nullptr);
      CHECK_EQUAL(allocationsLeft.load(), 0);
      allocationsLeft = -1;
      taken.push_back(box);
      checkHeld(tokens, step, taken);
    }
    checkWhole(tokens, step);
  }
}

TEST_CASE("sums of whole rows are taken as they are; those of rows without tokens stay, what has not come is NaN") {
  Numbers numbers(25);
  ThreadPool pool(2);
  const Step step(DType::Float64, 2, {3, 0, 2, 0, 4, 5}, 0, 0, numbers);
  std::vector<double> sums(12);
  StepTokens tokens(2, step.lengths, sums.data());
  const std::vector<std::int32_t> prompts{1, 0}, rows{1, 0};
  const double given[] = {11, 10, -1, -kInfinity};  // [rows, prompts]
  const ScoreMatrix matrix{given, DType::Float64, 2, 2, 2, 1};
  const std::vector<double> none = sums;
  for (const bool cancelled : {true, false}) {
    const auto block = tokens.claim(prompts, rows, {0, 1000}, DType::Float64);
    JobControl control;
    control.cancelled = cancelled;
    CHECK(takeSums(tokens, *block, matrix, pool, control) == (cancelled ? Outcome::Cancelled : Outcome::Done));
    CHECK(sums[2] == 0 && sums[3] == 0);  // nobody has claimed a row without tokens
    if (cancelled) {
      CHECK(sums == none);
      tokens.unclaim(*block);
      CHECK_EQUAL(tokens.missing(0, nullptr).rows, 4);
    } else {
      std::vector<std::uint8_t> touched(12);
      tokens.commit(*block, touched.data());
      CHECK(touched == std::vector<std::uint8_t>({1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
    }
  }
  CHECK(refused(tokens, {{0}, {0}, {1, 2}}, DType::Float64));
  const MissingTokens missing = tokens.missing(1, nullptr);
  CHECK_EQUAL(missing.rows, 3);
  CHECK_EQUAL(missing.row, 2);

  // Blocks of whole rows among which there are rows without tokens: these keep what they have.
  give(tokens, step, {{0, 1}, {1, 2, 3}, {0, 5}}, numbers, pool);
  give(tokens, step, {{0}, {3, 4}, {0, 5}}, numbers, pool);
  give(tokens, step, {{0}, {5}, {1, 5}}, numbers, pool);
  tokens.markMissing();
  const std::vector<double> first{-kInfinity, -1, 10, 11};
  CHECK(std::equal(first.begin(), first.end(), sums.begin()));
  CHECK(sums[4] < 0 && sums[5] < 0 && sums[6] == 0 && sums[7] == 0 && sums[8] < 0);
  for (std::size_t cell = 9; cell < 12; cell++) CHECK(std::isnan(sums[cell]));
}

TEST_CASE("what is held is about what docs and comments say") {
  Numbers numbers(26);
  ThreadPool pool(1);
  const Step step(DType::Float16, 1, std::vector<std::int64_t>(17, 5 * 4096), 0, 0, numbers);
  std::vector<double> sums(17);
  StepTokens tokens(1, step.lengths, sums.data());
  std::int64_t before = 0;
  // How much more is held after some tokens of these rows.
  const auto more = [&](std::vector<std::int32_t> rows, std::int64_t from, std::int64_t to) {
    give(tokens, step, {{0}, std::move(rows), {from, to}}, numbers, pool);
    const std::int64_t held = tokens.heldBytes(), grown = held - before;
    before = held;
    return grown;
  };
  const auto between = [](std::int64_t bytes, std::int64_t least, std::int64_t most) {
    CHECK_EQUAL(bytes, std::clamp(bytes, least, most));
  };
  // A row that begins alone, and rows with their neighbours; tokens in order hold no more.
  between(more({16}, 0, 100), 800, 1400);
  between(more({0, 1, 2, 3, 4, 5, 6, 7}, 0, 100) / 8, 400, 600);
  CHECK_EQUAL(more({0, 1, 2, 3, 4, 5, 6, 7, 16}, 100, 300), 0);
  // Tokens ahead of others are copies; they go when these come, and take their piece along.
  const std::int64_t copies = more({0}, 1000, 3000);
  between(copies, 2 * 2000 + 60, 2 * 2000 + 160);
  CHECK_EQUAL(more({0}, 300, 1000), -copies);
  // A leaf that is complete before one in front of it, until that is complete, too.
  const std::int64_t later = more({0}, 2 * 4096, 3 * 4096), open = more({0}, 4096, 4097);
  between(later, 40, 80);
  CHECK_EQUAL(open, static_cast<std::int64_t>(sizeof(LeafSum)));
  CHECK_EQUAL(more({0}, 4097, 2 * 4096), later - open);
  CHECK_EQUAL(more({0}, 3000, 4096), -2 * later - open);
  more({0, 16}, 4 * 4096, 4 * 4096 + 10);
  std::vector<std::uint8_t> all(17, 1);
  tokens.forget(all.data());
  CHECK_EQUAL(tokens.heldBytes(), 0);
  CHECK_EQUAL(tokens.waitingTokens(), 0);
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
