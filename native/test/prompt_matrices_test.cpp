// promptMatrices against the plainest reckoning in long double: posteriors by their definition, one row at a time.
#include "engine/inference/prompt_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "check.h"
#include "engine/half.h"
#include "engine/inference/student_t.h"
#include "engine/isa.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"
#include "test/references/inference.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

PromptMatrices matricesOf(const Step& step, int threads = 1, bool matrices = true) {
  ThreadPool pool(threads);
  JobControl control;
  RowStatsBuffers buffers(step.rows(), 0);
  const ScoreRows labels{step.own.data(), step.lengths.data(),
                         step.signature.empty() ? nullptr : step.signature.data()};
  const ScoreMatrix matrix{step.scores.data(), DType::Float64, step.rows(), step.columns, step.columns, 1};
  scoreStats(matrix, labels, buffers.stats, pool, control);
  PromptMatrices found;
  CHECK(promptMatrices({step.scores.data(), step.rows(), step.columns, labels, &buffers.stats, matrices}, found, pool,
                       control) == Outcome::Done);
  return found;
}

Step randomStep(std::uint64_t seed, std::int64_t columns, std::int64_t rows, double strength) {
  Numbers numbers(seed);
  Step step;
  step.columns = columns;
  for (std::int64_t r = 0; r < rows; r++) {
    // The last prompt of several has no rows.
    step.own.push_back(static_cast<std::int32_t>(r * 7 % std::max<std::int64_t>(1, columns - (columns > 2))));
    step.lengths.push_back(1 + r % 5);
    for (std::int64_t p = 0; p < columns; p++) {
      const bool impossible = p != step.own.back() && numbers.uniform() < 0.1;
      step.scores.push_back(impossible ? -kInfinity : -20 + strength * (numbers.bell() + 2 * (p == step.own.back())));
    }
  }
  return step;
}

bool sameBits(const PromptMatrices& a, const PromptMatrices& b) {
  const auto same = [](const std::vector<double>& x, const std::vector<double>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
  };
  return a.rows == b.rows && same(a.mi, b.mi) && same(a.low, b.low) && same(a.high, b.high) &&
         same(a.retrieval, b.retrieval) && a.posterior == b.posterior && a.nats == b.nats;
}

void checkStep(const Step& step) {
  const PromptMatrices found = matricesOf(step);
  std::vector<std::int64_t> rowsOf(at(step.columns), 0);
  for (const std::int32_t own : step.own) rowsOf[at(own)]++;
  CHECK(found.rows == rowsOf);
  for (std::int64_t i = 0; i < step.columns; i++) {
    std::vector<long double> posterior(at(step.columns), 0), nats(at(step.columns), 0);
    long double mi = 0, retrieved = 0;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      if (step.own[at(r)] != i) continue;
      long double top = -kInfinity, sum = 0, weights = 0;
      for (const double score : step.row(r)) top = std::max<long double>(top, score);
      for (std::int64_t p = 0; p < step.columns; p++) {
        const long double term = std::exp(step.row(r)[at(p)] - top);
        sum += term;
        weights += term * static_cast<long double>(rowsOf[at(p)]);
      }
      const long double marginal = top + std::log(sum / static_cast<long double>(step.columns));
      bool best = true;
      for (std::int64_t p = 0; p < step.columns; p++) {
        const long double score = step.row(r)[at(p)];
        posterior[at(p)] += std::exp(score - top) * static_cast<long double>(rowsOf[at(p)]) / weights;
        nats[at(p)] += score - marginal;
        const double own = step.row(r)[at(i)];
        best = best && !(step.row(r)[at(p)] > own || (step.row(r)[at(p)] == own && p < i));
      }
      mi += step.row(r)[at(i)] - marginal;
      retrieved += best;
    }
    if (rowsOf[at(i)] == 0) {
      CHECK(std::isnan(found.mi[at(i)]) && std::isnan(found.retrieval[at(i)]) && std::isnan(found.low[at(i)]));
      for (std::int64_t p = 0; p < step.columns; p++) {
        CHECK_EQUAL(int{found.posterior[at(i * step.columns + p)]}, 0);
        CHECK(std::isnan(float16ToFloat(found.nats[at(i * step.columns + p)])));
      }
      continue;
    }
    const auto count = static_cast<long double>(rowsOf[at(i)]);
    CHECK(std::fabs(found.mi[at(i)] - static_cast<double>(mi / count)) < 1e-12);
    CHECK_EQUAL(found.retrieval[at(i)], static_cast<double>(retrieved / count));
    for (std::int64_t p = 0; p < step.columns; p++) {
      const std::size_t cell = at(i * step.columns + p);
      CHECK(std::fabs(found.posterior[cell] - static_cast<double>(posterior[at(p)] / count * 255)) <= 0.5 + 1e-9);
      const auto expected = static_cast<double>(nats[at(p)] / count);
      const double given = float16ToFloat(found.nats[cell]);
      if (std::isinf(expected)) {
        CHECK(given == expected);
      } else {
        CHECK(std::fabs(given - expected) <= 0x1p-11 * std::fabs(expected) + 0x1p-25 + 1e-12);
      }
    }
  }
}

}  // namespace

TEST_CASE("matrices are the means over each prompt's rows that their definition gives") {
  for (std::uint64_t seed = 0; seed < 60; seed++) {
    const auto columns = static_cast<std::int64_t>(1 + seed * 5 % 41);
    const auto rows = static_cast<std::int64_t>(1 + seed * 11 % 97);
    checkStep(randomStep(seed, columns, rows, 0.1 + static_cast<double>(seed % 4)));
  }
}

TEST_CASE("equal scores under all prompts give every prompt its share, and no information") {
  Step step;
  step.columns = 4;
  for (std::int32_t r = 0; r < 8; r++) {
    step.own.push_back(r % 4);
    step.lengths.push_back(3);
    for (int p = 0; p < 4; p++) step.scores.push_back(-5);
  }
  const PromptMatrices found = matricesOf(step);
  for (const std::uint8_t cell : found.posterior) CHECK_EQUAL(int{cell}, 64);
  for (const std::uint16_t cell : found.nats) CHECK_EQUAL(int{cell}, 0);
  for (int p = 0; p < 4; p++) {
    CHECK_EQUAL(found.mi[at(p)], 0.0);
    CHECK(found.low[at(p)] <= 0 && found.high[at(p)] >= 0 && found.high[at(p)] < 1e-9);
    // The lowest of the best columns is retrieved.
    CHECK_EQUAL(found.retrieval[at(p)], p == 0 ? 1.0 : 0.0);
  }
}

TEST_CASE("a prompt's interval is that of the definition, and of one row there is none") {
  const Step step = randomStep(5, 6, 41, 1);
  const PromptMatrices found = matricesOf(step);
  std::vector<long double> rowsOf(6, 0);
  for (const std::int32_t own : step.own) rowsOf[at(own)]++;
  for (std::int64_t p = 0; p < 5; p++) {
    long double w = 0, wv = 0, wvv = 0, wwvv = 0;
    std::vector<long double> weights, values;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      long double top = -kInfinity, sum = 0, all = 0;
      for (const double score : step.row(r)) top = std::max<long double>(top, score);
      for (std::int64_t q = 0; q < 6; q++) {
        sum += std::exp(step.row(r)[at(q)] - top);
        all += std::exp(step.row(r)[at(q)] - top) * rowsOf[at(q)];
      }
      const long double weight = std::exp(step.row(r)[at(p)] - top) * rowsOf[at(p)] / all;
      if (weight == 0) continue;
      weights.push_back(weight);
      values.push_back(step.row(r)[at(p)] - top - std::log(sum / 6));
      w += weight;
      wv += weight * values.back();
    }
    const long double mean = wv / w;
    for (std::size_t i = 0; i < weights.size(); i++) {
      const long double square = weights[i] * (values[i] - mean) * (values[i] - mean);
      wvv += square;
      wwvv += weights[i] * square;
    }
    const long double h = std::min(0.5L, wwvv / (w * wvv));
    const long double variance = wvv / w / (1 - h) / rowsOf[at(p)];
    const long double degrees = std::min(static_cast<long double>(step.rows() - 1), std::max(2.0L, 1 / h - 1));
    const auto half = studentT975(static_cast<double>(degrees)) * static_cast<double>(std::sqrt(variance));
    // Either the posterior's, or where labels do not fit the scores the wider one of the prompt's own rows.
    CHECK(found.mi[at(p)] - found.low[at(p)] > half - 1e-9);
    CHECK(found.high[at(p)] <= std::max(found.mi[at(p)], std::log(6.0)) + 1e-12);
  }
  Step single = randomStep(3, 4, 1, 1);
  CHECK(std::isnan(matricesOf(single).low[at(single.own[0])]));
}

TEST_CASE("neither threads nor instruction set change a bit") {
  for (const std::int64_t columns : {1, 2, 63, 130}) {
    const Step step = randomStep(9, columns, 300, 1.5);
    const PromptMatrices one = matricesOf(step);
    CHECK(sameBits(one, matricesOf(step, 4)));
    const Isa before = activeIsa();
    for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
      if (!forceIsa(isaName(isa))) continue;
      CHECK(sameBits(one, matricesOf(step, 2)));
    }
    CHECK(forceIsa(isaName(before)));
  }
}

TEST_CASE("figures alone are the same without matrices") {
  const Step step = randomStep(2, 9, 50, 1);
  PromptMatrices with = matricesOf(step);
  const PromptMatrices without = matricesOf(step, 2, false);
  CHECK(without.posterior.empty() && without.nats.empty());
  with.posterior.clear();
  with.nats.clear();
  CHECK(sameBits(with, without));
}

TEST_CASE("float16Of gives the nearest float16, ties to even") {
  for (std::uint32_t bits = 0; bits < 0x7c00; bits++) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double value = float16ToFloat(half);
    CHECK_EQUAL(int{float16Of(value)}, int{half});
    CHECK_EQUAL(int{float16Of(-value)}, int{half} | 0x8000);
    if (bits + 1 == 0x7c00) continue;
    const double next = float16ToFloat(static_cast<std::uint16_t>(half + 1)), middle = (value + next) / 2;
    CHECK_EQUAL(int{float16Of(middle)}, bits % 2 == 0 ? int{half} : int{half} + 1);
    CHECK_EQUAL(int{float16Of(std::nextafter(middle, 0))}, int{half});
    CHECK_EQUAL(int{float16Of(std::nextafter(middle, kInfinity))}, int{half} + 1);
  }
  CHECK_EQUAL(int{float16Of(1e6)}, 0x7bff);
  CHECK_EQUAL(int{float16Of(-65520)}, 0xfbff);
  CHECK_EQUAL(int{float16Of(kInfinity)}, 0x7c00);
  CHECK_EQUAL(int{float16Of(-kInfinity)}, 0xfc00);
  CHECK_EQUAL(int{float16Of(std::nan(""))}, 0x7e00);
  CHECK_EQUAL(int{float16Of(5e-324)}, 0);
}

int main() { return collapsar::test::runCases(); }
