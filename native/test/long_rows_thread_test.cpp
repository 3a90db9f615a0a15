// Rows that threads share, leaf by leaf: right, the same bits on every instruction set and with any number of threads,
// and soon at an end when the job is cancelled.
#include <algorithm>
#include <chrono>
#include <thread>

#include "check.h"
#include "engine/gather_scores.h"
#include "engine/isa.h"
#include "engine/logit_stats.h"
#include "engine/score_stats.h"
#include "engine/tokens/sum_tokens.h"
#include "engine/tokens/take_block.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"
#include "test/references/logits.h"
#include "test/references/scores.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kTooManyTokens = std::int64_t{1} << 33, kTooManyColumns = INT32_MAX;

// compute(pool) gives bits, which must be the same on each instruction set with one thread and two; those are returned.
template <class Compute>
auto bitsOf(const Compute& compute, const char* what) {
  using Bits = decltype(compute(std::declval<ThreadPool&>()));
  std::vector<Bits> all;
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (int threads = 1; threads <= 2; threads++) {
      ThreadPool pool(threads);
      all.push_back(compute(pool));
      const bool same = all.back().size() == all[0].size() &&
                        std::memcmp(all.back().data(), all[0].data(), all[0].size() * sizeof all[0][0]) == 0;
      CHECK_EQUAL(same, true, what, " ", isaName(isa), " ", threads, " threads");
    }
  }
  return all.back();
}

// A job that would take seconds at least: how long it takes to hear of its cancelling, at best of three times.
template <class Run>
void expectHeard(const char* what, const Run& run) {
  double best = 1e9;
  for (int attempt = 0; attempt < 3; attempt++) {
    for (const int threads : {1, 2}) {
      ThreadPool pool(threads);
      JobControl control;
      std::chrono::steady_clock::time_point cancelled;
      std::thread canceller([&] {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        while (control.doneUnits < 1 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        cancelled = std::chrono::steady_clock::now();
        control.cancelled = true;
      });
      CHECK_EQUAL(run(pool, control) == Outcome::Cancelled, true, what);
      const auto end = std::chrono::steady_clock::now();
      canceller.join();
      best = std::min(best, std::chrono::duration<double>(end - cancelled).count());
    }
  }
  CHECK_EQUAL(best < (kSanitized ? 1.0 : 0.1), true, what, ": ", best * 1e3, " ms");
  std::cout << what << " hears of an abort in " << best * 1e3 << " ms\n";
}

// In the plainest form: leaves of 4096 tokens, their lanes folded by halves, added in order.
double laneSum(const Elements& elements, std::int64_t start, std::int64_t stride, std::int64_t length) {
  double total = 0;
  for (std::int64_t begin = 0; begin < length; begin += 4096) {
    double lanes[32] = {};
    for (std::int64_t t = 0; t < std::min<std::int64_t>(4096, length - begin); t++) {
      lanes[t % 32] += elements.get(start + (begin + t) * stride);
    }
    for (int half = 16; half > 0; half /= 2) {
      for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    }
    total += lanes[0];
  }
  return total;
}

}  // namespace

TEST_CASE("sumTokens: long rows of any layout among short ones") {
  const std::int64_t limit = std::int64_t{1} << 18;
  const std::vector<std::int64_t> lengths = {70, limit + 1, 2 * limit + 5000, 0, limit, limit + 4096};
  const std::int64_t rows = static_cast<std::int64_t>(lengths.size()), prompts = 2, tokens = 2 * limit + 5001;
  Numbers numbers(91);
  for (const DType dtype : {DType::Float64, DType::BFloat16}) {
    if (kSanitized && dtype == DType::Float64) continue;
    Elements elements(dtype, prompts * rows * tokens);
    for (std::int64_t i = 0; i < prompts * rows * tokens; i++) elements.set(i, -8 * numbers.uniform());
    struct Layout {
      const char* what;
      std::int64_t prompt, row, token;
    };
    for (const Layout& layout :
         {Layout{"dense", rows * tokens, tokens, 1}, Layout{"[R,P,T]", tokens, prompts * tokens, 1},
          Layout{"[P,T,R]", rows * tokens, 1, rows}, Layout{"[T,R,P]", 1, prompts, prompts * rows},
          Layout{"every other token", rows * tokens, tokens / 2, 2}}) {
      std::vector<std::int64_t> cut = lengths;
      if (layout.token == 2) {
        for (std::int64_t& length : cut) length = std::min(length, tokens / 2);
      }
      const TokenScores scores{elements.data(), dtype,        prompts,    rows,   layout.prompt,
                               layout.row,      layout.token, cut.data(), nullptr};
      const auto sums = bitsOf(
          [&](ThreadPool& pool) {
            std::vector<double> out(static_cast<std::size_t>(prompts * rows), -1.0);
            JobControl control;
            InvalidToken invalid;
            CHECK(sumTokens(scores, {out.data(), prompts, nullptr}, pool, control, &invalid) == Outcome::Done);
            CHECK_EQUAL(control.doneUnits.load(), control.totalUnits.load());
            CHECK_EQUAL(invalid.prompt, -1);
            return out;
          },
          layout.what);
      for (std::int64_t p = 0; p < prompts; p++) {
        for (std::int64_t r = 0; r < rows; r++) {
          const double expected =
              laneSum(elements, p * layout.prompt + r * layout.row, layout.token, cut[static_cast<std::size_t>(r)]);
          CHECK_EQUAL(sums[static_cast<std::size_t>(r * prompts + p)], expected, layout.what, " row ", r);
        }
      }
    }
  }
}

TEST_CASE("sumTokens: the first invalid token of a long row, and sums that it makes") {
  const std::int64_t length = (std::int64_t{1} << 20) + 17;
  Elements elements(DType::Float32, 2 * length);
  for (std::int64_t i = 0; i < 2 * length; i++) elements.set(i, -1);
  elements.set(length + 700000, kInfinity);
  elements.set(length + 700001, kNaN);
  const std::int64_t lengths[] = {length, length};
  const TokenScores scores{elements.data(), DType::Float32, 1, 2, 2 * length, length, 1, lengths, nullptr};
  double sums[2];
  ThreadPool pool(2);
  JobControl control;
  InvalidToken invalid;
  CHECK(sumTokens(scores, {sums, 1, nullptr}, pool, control, &invalid) == Outcome::Done);
  CHECK_EQUAL(sums[0], -static_cast<double>(length));
  CHECK(std::isnan(sums[1]));
  CHECK(invalid.prompt == 0 && invalid.row == 1 && invalid.token == 700000);
}

TEST_CASE("a long part of a row in a block is shared as well") {
  const std::int64_t length = (std::int64_t{1} << 19) + 100, from = 5000;
  Numbers numbers(92);
  Elements elements(DType::Float32, 2 * length);
  for (std::int64_t i = 0; i < 2 * length; i++) elements.set(i, -8 * numbers.uniform());
  const std::int64_t rows[] = {length, length};
  for (const bool backwards : {false, true}) {
    bitsOf(
        [&](ThreadPool& pool) {
          std::vector<double> sums(2);
          StepTokens step(1, {length, length}, sums.data());
          const auto take = [&](std::int64_t begin, std::int64_t end) {
            const std::shared_ptr<TokenBlock> block = step.claim({0}, {0, 1}, {begin, end}, DType::Float32);
            const std::int64_t none[] = {0, 0};
            const TokenScores scores{static_cast<const float*>(elements.data()) + begin,
                                     DType::Float32,
                                     1,
                                     2,
                                     2 * length,
                                     length,
                                     1,
                                     none,
                                     nullptr};
            JobControl control;
            CHECK(takeTokens(step, *block, scores, pool, control) == Outcome::Done);
            step.commit(*block, nullptr);
          };
          if (backwards) take(from, length);
          take(0, from);
          if (!backwards) take(from, length);
          CHECK_EQUAL(step.missing(0, nullptr).rows, 0);
          std::vector<double> whole(2);
          JobControl control;
          const TokenScores scores{elements.data(), DType::Float32, 1, 2, 2 * length, length, 1, rows, nullptr};
          CHECK(sumTokens(scores, {whole.data(), 1, nullptr}, pool, control, nullptr) == Outcome::Done);
          CHECK(whole == sums);
          return sums;
        },
        "parts");
  }
}

TEST_CASE("scoreStats: rows of several leaves, with ties, equivalents and special values anywhere") {
  const std::int64_t leaf = std::int64_t{1} << 18, rows = 5;
  Numbers numbers(93);
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    for (const std::int64_t columns : {leaf + 3, 2 * leaf + 2049}) {
      for (const bool transposed : {false, true}) {
        if (columns != leaf + 3 && (kSanitized || transposed)) continue;
        Elements elements(dtype, rows * columns);
        const auto at = [&](std::int64_t r, std::int64_t c) { return transposed ? c * rows + r : r * columns + c; };
        for (std::int64_t r = 0; r < rows; r++) {
          for (std::int64_t c = 0; c < columns; c++) {
            // Row 1 rises from leaf to leaf, row 2 falls.
            const double slope = r == 1 ? 60.0 : r == 2 ? -60.0 : 0.0;
            elements.set(at(r, c),
                         12 * numbers.bell() - 90 + slope * static_cast<double>(c) / static_cast<double>(leaf));
          }
        }
        // Row 0: the best stand on both sides of the leaves' border. Rows 3 and 4: NaN, +inf and -inf in one leaf or
        // two.
        for (const std::int64_t c : {leaf - 2, leaf - 1, leaf, leaf + 1, leaf + 2}) {
          if (c < columns) elements.set(at(0, c), 40);
        }
        elements.set(at(3, 5), -kInfinity);
        elements.set(at(3, columns - 1), kInfinity);
        elements.set(at(4, columns - 2), kNaN);
        elements.set(at(4, 17), kInfinity);
        const std::int32_t last = static_cast<std::int32_t>(columns - 1);
        const std::vector<std::int32_t> own = {static_cast<std::int32_t>(leaf - 1), 3, last, last, 17};
        const std::vector<std::int64_t> lengths = {1, 7, 300, 0, 4096};
        std::vector<std::int32_t> signature(static_cast<std::size_t>(columns));
        for (std::int32_t& s : signature) s = static_cast<std::int32_t>(numbers.below(7));
        const ScoreMatrix matrix{elements.data(),      dtype, rows, columns, transposed ? 1 : columns,
                                 transposed ? rows : 1};
        for (const bool distinct : {true, false}) {
          if (distinct != transposed && columns == leaf + 3) continue;
          const ScoreRows labels{own.data(), lengths.data(), distinct ? nullptr : signature.data()};
          RowStatsBuffers out(rows, kMaxTopK);
          bitsOf(
              [&](ThreadPool& pool) {
                out = RowStatsBuffers(rows, kMaxTopK);
                JobControl control;
                CHECK(scoreStats(matrix, labels, out.stats, pool, control) == Outcome::Done);
                CHECK_EQUAL(control.doneUnits.load(), rows * columns);
                std::vector<double> bits = out.doubles;
                for (const std::int32_t index : out.indices) bits.push_back(index);
                return bits;
              },
              "scoreStats");
          for (std::int64_t r = 0; r < rows; r++) {
            std::vector<double> scores;
            for (std::int64_t c = 0; c < columns; c++) scores.push_back(elements.get(at(r, c)));
            const auto slot = static_cast<std::size_t>(r);
            const ReferenceRow expected = referenceRow(scores, own[slot], lengths[slot], labels.signature);
            const bool wide = dtype == DType::Float64;
            // As in score_stats_test.cpp: 4 ulp of the log-sum-exp, or 3e-7 and half an ulp of a float.
            const auto near = [&](double actual, long double value) {
              const double size = std::abs(static_cast<double>(value)) + 13;
              const double gate = wide ? 4 * size * 0x1p-52 : 3e-7 + size * 0x1p-24;
              CHECK_NEAR(actual, static_cast<double>(value), std::isfinite(value) ? gate : 0, "row ", r, " of ",
                         columns);
            };
            near(out.stats.marginalSeq[r], expected.marginalSeq);
            near(out.stats.marginalToken[r], expected.marginalToken);
            near(out.stats.looMarginalSeq[r], expected.looMarginalSeq);
            near(out.stats.looMarginalToken[r], expected.looMarginalToken);
            CHECK_NEAR(out.stats.posteriorEntropy[r], static_cast<double>(expected.posteriorEntropy),
                       wide ? 1e-13 : 1e-6, "row ", r);
            CHECK_EQUAL(out.stats.argmax[r], expected.argmax, "row ", r);
            CHECK_EQUAL(out.stats.rankAbove[r], expected.rankAbove, "row ", r);
            CHECK_EQUAL(out.stats.rankEqual[r], expected.rankEqual, "row ", r);
            CHECK_EQUAL(out.stats.hitRank[r], expected.hitRank, "row ", r);
            for (int k = 0; k < kMaxTopK; k++) {
              CHECK_EQUAL(out.stats.topColumns[r * kMaxTopK + k], expected.byRank[static_cast<std::size_t>(k)], "row ",
                          r, " place ", k);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("logitStats: rows that alternate in memory are shared as others are, with special values in any leaf") {
  const std::int64_t columns = 3 * 32768 + 11, rows = 5;
  Numbers numbers(94);
  for (const DType dtype : {DType::Float64, DType::BFloat16}) {
    for (const bool transposed : {false, true}) {
      Elements elements(dtype, rows * columns);
      const auto at = [&](std::int64_t r, std::int64_t c) { return transposed ? c * rows + r : r * columns + c; };
      for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, 4 * numbers.bell());
      elements.set(at(1, columns - 1), kInfinity);
      elements.set(at(1, 40000), kInfinity);
      elements.set(at(2, 70000), kNaN);
      elements.set(at(2, 5), kInfinity);
      const std::int32_t targets[] = {7, 40001, 70000, 9, 98000};
      const std::uint8_t mask[] = {1, 1, 1, 0, 1};
      std::vector<double> last;
      const auto bits = bitsOf(
          [&](ThreadPool& pool) {
            std::vector<double> doubles(3 * rows);
            std::vector<std::int32_t> indices(3 * rows);
            const LogitStats out{doubles.data(), doubles.data() + rows, doubles.data() + 2 * rows,
                                 indices.data(), indices.data() + rows, indices.data() + 2 * rows};
            JobControl control;
            CHECK(logitStats({elements.data(), dtype, rows, columns, transposed ? 1 : columns, transposed ? rows : 1},
                             {targets, mask, 1.0}, out, {}, pool, control) == Outcome::Done);
            CHECK_EQUAL(control.doneUnits.load(), rows * columns);
            std::vector<double> all = doubles;
            for (const std::int32_t index : indices) all.push_back(index);
            return all;
          },
          "logitStats");
      for (std::int64_t r = 0; r < rows; r++) {
        const auto field = [&](int f) { return bits[static_cast<std::size_t>(f * rows + r)]; };
        if (mask[r] == 0) {
          CHECK(std::isnan(field(0)) && field(3) == -1);
          continue;
        }
        std::vector<double> row;
        for (std::int64_t c = 0; c < columns; c++) row.push_back(elements.get(at(r, c)));
        const LogitReference expected = referenceLogits(row, targets[r], 1.0);
        const double gate = dtype == DType::Float64 ? 2e-14 : 2e-6;
        CHECK_NEAR(field(0), static_cast<double>(expected.logsumexp), gate, "row ", r);
        CHECK_NEAR(field(1), static_cast<double>(expected.entropy), gate, "row ", r);
        CHECK_NEAR(field(2), static_cast<double>(expected.targetLogprob), gate, "row ", r);
        CHECK_EQUAL(field(3), expected.argmax, "row ", r);
        CHECK_EQUAL(field(4), expected.rankAbove, "row ", r);
        CHECK_EQUAL(field(5), expected.rankEqual, "row ", r);
      }
    }
  }
}

TEST_CASE("a job hears of its cancelling within a row, however long") {
  // One element for all of them.
  for (const double element : {-1.0, kNaN}) {
    const std::int64_t length = kTooManyTokens;
    // Dense, packed leaf by leaf, and read across neighbours.
    for (const std::int64_t rows : {1, 20}) {
      const std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), length);
      std::vector<double> sums(static_cast<std::size_t>(rows));
      expectHeard(rows == 1 ? "sumTokens" : "sumTokens of neighbours", [&](ThreadPool& pool, JobControl& control) {
        InvalidToken invalid;
        const TokenScores scores{&element, DType::Float64, 1, rows, 0, 0, 0, lengths.data(), nullptr};
        return sumTokens(scores, {sums.data(), 1, nullptr}, pool, control, &invalid);
      });
    }
    const std::int32_t own = 5;
    RowStatsBuffers stats(1, kMaxTopK);
    expectHeard("scoreStats", [&](ThreadPool& pool, JobControl& control) {
      return scoreStats({&element, DType::Float64, 1, kTooManyColumns, 0, 0}, {&own, &length, nullptr}, stats.stats,
                        pool, control);
    });
    double doubles[3];
    std::int32_t indices[3];
    expectHeard("logitStats", [&](ThreadPool& pool, JobControl& control) {
      return logitStats({&element, DType::Float64, 1, kTooManyColumns, 0, 0}, {&own, nullptr, 1.0},
                        {doubles, doubles + 1, doubles + 2, indices, indices + 1, indices + 2}, {}, pool, control);
    });
    if (kSanitized) break;
  }
}

int main() { return runCases(); }
