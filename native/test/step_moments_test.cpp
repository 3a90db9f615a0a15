// stepMoments against figures worked out by hand and by long double; rows in any order.
#include "engine/step_moments.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "check.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Rows {
  explicit Rows(std::int64_t rows) : lengths(at(rows), 1), out(rows, 0) {
    std::fill(out.doubles.begin(), out.doubles.end(), 0.0);
    std::fill(out.indices.begin(), out.indices.end(), 0);
  }
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::vector<std::int64_t> lengths;
  RowStatsBuffers out;
};

}  // namespace

TEST_CASE("means and deviations of known numbers") {
  Rows rows(4);
  rows.lengths = {1, 2, 4, 0};
  const double matched[] = {-1, -2, -3, -6}, marginal[] = {-3, -6, -3, -8};
  std::copy_n(matched, 4, rows.out.stats.matchedSeq);
  std::copy_n(marginal, 4, rows.out.stats.marginalSeq);
  const StepMoments m = stepMoments(rows.out.stats, rows.lengths.data(), 4);
  CHECK_EQUAL(m.rows, 4);
  CHECK_EQUAL(m.matchedSeq.mean, -3.0);
  CHECK_EQUAL(m.matchedSeq.std, std::sqrt(3.5));  // (4 + 1 + 0 + 9) / 4
  CHECK_EQUAL(m.marginalSeq.mean, -5.0);
  CHECK_EQUAL(m.excessSeq.mean, 2.0);  // 2, 4, 0, 2
  CHECK_EQUAL(m.excessSeq.std, std::sqrt(2.0));
  CHECK_EQUAL(m.excessPerToken.mean, 1.5);  // 2/1, 4/2, 0/4, 2/max(0,1)
  CHECK_EQUAL(m.posteriorEntropy.mean, 0.0);
  CHECK_EQUAL(m.posteriorEntropy.std, 0.0);
}

TEST_CASE("each moment is of its own numbers") {
  Rows rows(2);
  const RowStats& stats = rows.out.stats;
  double* const columns[] = {stats.matchedToken, stats.marginalToken,  stats.matchedSeq,
                             stats.marginalSeq,  stats.looMarginalSeq, stats.posteriorEntropy};
  double value = 1;
  for (double* const column : columns) {
    column[0] = column[1] = -value;
    value *= 10;
  }
  const StepMoments m = stepMoments(stats, rows.lengths.data(), 2);
  CHECK_EQUAL(m.matchedToken.mean, -1.0);
  CHECK_EQUAL(m.marginalToken.mean, -10.0);
  CHECK_EQUAL(m.matchedSeq.mean, -100.0);
  CHECK_EQUAL(m.marginalSeq.mean, -1000.0);
  CHECK_EQUAL(m.excessSeq.mean, 900.0);
  CHECK_EQUAL(m.excessToken.mean, 9.0);
  CHECK_EQUAL(m.excessPerToken.mean, 900.0);
  CHECK_EQUAL(m.looExcessSeq.mean, 9900.0);
  CHECK_EQUAL(m.posteriorEntropy.mean, -100000.0);
}

TEST_CASE("squares of deviations are added without rounding") {
  Rows rows(4);
  const double a = 0x1.9755d4de3fa85p+0, b = 0x1.1a2b8f1cd87e6p+0;
  const double matched[] = {a, -a, b, -b};
  std::copy_n(matched, 4, rows.out.stats.matchedSeq);
  const StepMoments m = stepMoments(rows.out.stats, rows.lengths.data(), 4);
  // In rational numbers; of rounded squares it ends in 4.
  CHECK_EQUAL(m.matchedSeq.std, 0x1.5e630eef76665p+0);
}

TEST_CASE("a hit in the top k is a rank below k") {
  Rows rows(6);
  const std::int32_t ranks[] = {0, 1, 2, 3, 7, 8};
  std::copy_n(ranks, 6, rows.out.stats.hitRank);
  const StepMoments m = stepMoments(rows.out.stats, rows.lengths.data(), 6);
  CHECK_EQUAL(m.hits[0], 1);
  CHECK_EQUAL(m.hits[1], 2);
  CHECK_EQUAL(m.hits[2], 4);
  CHECK_EQUAL(m.hits[3], 5);
}

TEST_CASE("special rows show in the mean") {
  Rows rows(3);
  rows.out.stats.marginalSeq[1] = kInfinity;
  rows.out.stats.looMarginalSeq[2] = std::nan("");
  rows.out.stats.matchedToken[0] = -kInfinity;
  const StepMoments m = stepMoments(rows.out.stats, rows.lengths.data(), 3);
  CHECK_EQUAL(m.marginalSeq.mean, kInfinity);
  CHECK(std::isnan(m.marginalSeq.std));
  CHECK_EQUAL(m.excessSeq.mean, -kInfinity);
  CHECK(std::isnan(m.looExcessSeq.mean));
  CHECK_EQUAL(m.matchedToken.mean, -kInfinity);
  CHECK_EQUAL(m.matchedSeq.std, 0.0);
}

TEST_CASE("sums that cancel are exact, and the order of rows changes no bit") {
  Numbers numbers(41);
  const std::int64_t count = 999;
  Rows rows(count);
  for (std::int64_t r = 0; r < count; r++) {
    rows.out.stats.matchedSeq[r] = std::ldexp(numbers.between(-1, 1), static_cast<int>(numbers.below(80)) - 40);
    rows.out.stats.matchedToken[r] = r % 3 == 0 ? 1e17 : r % 3 == 1 ? 1.0 : -1e17;
    rows.lengths[static_cast<std::size_t>(r)] = numbers.below(50);
  }
  const StepMoments first = stepMoments(rows.out.stats, rows.lengths.data(), count);
  CHECK_EQUAL(first.matchedToken.mean, 1.0 / 3.0);

  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int trial = 0; trial < 5; trial++) {
    for (std::size_t i = order.size() - 1; i > 0; i--) {
      std::swap(order[i], order[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1))]);
    }
    Rows shuffled(count);
    for (std::int64_t r = 0; r < count; r++) {
      const std::int64_t from = order[static_cast<std::size_t>(r)];
      shuffled.out.stats.matchedSeq[r] = rows.out.stats.matchedSeq[from];
      shuffled.out.stats.matchedToken[r] = rows.out.stats.matchedToken[from];
      shuffled.lengths[static_cast<std::size_t>(r)] = rows.lengths[static_cast<std::size_t>(from)];
    }
    const StepMoments again = stepMoments(shuffled.out.stats, shuffled.lengths.data(), count);
    CHECK(std::memcmp(&first, &again, sizeof first) == 0);
  }
}

int main() { return collapsar::test::runCases(); }
