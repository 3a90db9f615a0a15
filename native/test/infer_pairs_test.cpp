// inferPairs: the log of a sampled total against its definition in long double, whole steps against inferStep, and what
// must not change a bit.
#include "engine/inference/sampled/infer_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "check.h"
#include "engine/inference/sampled/log_total.h"
#include "engine/isa.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"
#include "test/references/scores.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Values = std::vector<long double>;

// --- the log of a sampled total
// ----------------------------------------------------------------------------------------

struct Draws {
  std::vector<double> logs;  // ln of each prompt's columns together
  std::vector<std::int32_t> counts;
  std::int64_t size, columns;
};

long double plainTotal(const Draws& stratum, const std::vector<int>& left) {
  Values kept;
  std::int64_t drawn = 0;
  for (std::size_t i = 0; i < stratum.logs.size(); i++) {
    if (std::find(left.begin(), left.end(), static_cast<int>(i)) != left.end()) continue;
    kept.push_back(stratum.logs[i]);
    drawn += stratum.counts[i];
  }
  return referenceLogSumExp(kept) + std::log(static_cast<long double>(stratum.columns)) -
         std::log(static_cast<long double>(drawn));
}

long double meanOf(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0L) / static_cast<long double>(values.size());
}

// ln(e^own + totals) with draws left out of the first and the second stratum.
long double logTotal(double ownLog, const std::vector<Draws>& strata, const std::vector<int>& a,
                     const std::vector<int>& b) {
  Values terms{ownLog};
  for (std::size_t h = 0; h < strata.size(); h++) terms.push_back(plainTotal(strata[h], h == 0 ? a : b));
  return referenceLogSumExp(terms);
}

// The corrected log by its definition: means over subsets, extended to all prompts by a parabola in 1/k.
long double naiveValue(double ownLog, const std::vector<Draws>& strata) {
  const long double plain = logTotal(ownLog, strata, {}, {});
  long double value = plain;
  Values means;
  for (std::size_t h = 0; h < strata.size(); h++) {
    const Draws& stratum = strata[h];
    const int n = static_cast<int>(stratum.logs.size());
    if (n == stratum.size || n < 2) continue;
    const auto of = [&](const std::vector<int>& left) {
      return h == 0 ? logTotal(ownLog, strata, left, {}) : logTotal(ownLog, strata, {}, left);
    };
    Values one, two;
    for (int i = 0; i < n; i++) one.push_back(of({i}));
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < i; j++) two.push_back(of({i, j}));
    }
    if (!std::isfinite(meanOf(one))) continue;
    means.push_back(meanOf(one));
    const long double N = static_cast<long double>(stratum.size);
    if (n < 3 || n > kSecondOrderDraws || !std::isfinite(meanOf(two))) {
      value += (1 - n / N) * (n - 1) * (plain - meanOf(one));
      continue;
    }
    const long double x[] = {1.0L / n, 1.0L / (n - 1), 1.0L / (n - 2)}, y[] = {plain, meanOf(one), meanOf(two)};
    long double parabola = 0;
    for (int k = 0; k < 3; k++) {
      long double weight = y[k];
      for (int other = 0; other < 3; other++) {
        if (other != k) weight *= (1 / N - x[other]) / (x[k] - x[other]);
      }
      parabola += weight;
    }
    value += parabola - plain;
  }
  if (means.size() < 2 || strata[0].logs.size() * strata[1].logs.size() > kSecondOrderDraws * kSecondOrderDraws) {
    return value;
  }
  Values crossed;
  long double scale = 1;
  for (const Draws& stratum : strata) {
    const auto n = static_cast<long double>(stratum.logs.size());
    scale *= (1 - n / static_cast<long double>(stratum.size)) * (n - 1);
  }
  for (int i = 0; i < static_cast<int>(strata[0].logs.size()); i++) {
    for (int j = 0; j < static_cast<int>(strata[1].logs.size()); j++) {
      crossed.push_back(logTotal(ownLog, strata, {i}, {j}));
    }
  }
  return std::isfinite(meanOf(crossed)) ? value + scale * (plain - means[0] - means[1] + meanOf(crossed)) : value;
}

// Of draw s with draw `left` missing: y/T ln(1 + T/own), T the other draws' estimate of all the rest.
long double naiveShare(double ownLog, const std::vector<Draws>& strata, std::size_t h, int s, int left) {
  const Draws& stratum = strata[h];
  Values known{stratum.logs[static_cast<std::size_t>(s)]};
  if (known[0] == -kInfinity) return 0;
  if (strata.size() == 2) known.push_back(plainTotal(strata[1 - h], {}));
  Draws others = stratum;
  others.columns -= stratum.counts[static_cast<std::size_t>(s)];
  std::vector<int> missing{s};
  if (left >= 0) missing.push_back(left);
  if (missing.size() < stratum.logs.size()) known.push_back(plainTotal(others, missing));
  const long double total = referenceLogSumExp(known), ratio = total - ownLog;
  const long double gain = ratio > 0 ? ratio + std::log1p(std::exp(-ratio)) : std::log1p(std::exp(ratio));
  return std::exp(known[0] - total) * gain;
}

long double naiveUpper(double ownLog, const std::vector<Draws>& strata) {
  long double value = ownLog;
  for (std::size_t h = 0; h < strata.size(); h++) {
    const int n = static_cast<int>(strata[h].logs.size());
    const auto size = static_cast<long double>(strata[h].size);
    const auto shares = [&](int left) {
      long double sum = 0;
      for (int s = 0; s < n; s++) sum += s == left ? 0 : naiveShare(ownLog, strata, h, s, left);
      return sum * size / (left < 0 ? n : n - 1);
    };
    value += shares(-1);
    if (n < 3 || n == strata[h].size || n > kSecondOrderDraws) continue;
    Values one;
    for (int left = 0; left < n; left++) one.push_back(shares(left));
    value += (1 - n / size) * (n - 1) * (shares(-1) - meanOf(one));
  }
  return value;
}

LogTotal estimate(double ownLog, const std::vector<Draws>& strata) {
  std::vector<double> logOf;
  for (int n = 0; n < 4096; n++) logOf.push_back(n == 0 ? -kInfinity : std::log(n));
  LogAdder adder;
  LogTotals totals(adder);
  StratumLogs logs[2];
  for (std::size_t h = 0; h < strata.size(); h++) {
    const Draws& of = strata[h];
    logs[h].take(of.logs.data(), of.counts.data(), static_cast<std::int64_t>(of.logs.size()), of.size, of.columns,
                 logOf.data(), adder);
  }
  return totals.estimate(ownLog, logs, static_cast<int>(strata.size()));
}

Draws drawn(Numbers& numbers, int n, int undrawn, double spread) {
  Draws stratum{{}, {}, n + undrawn, 0};
  for (int i = 0; i < n; i++) {
    stratum.counts.push_back(numbers.below(4) == 0 ? 1 + static_cast<std::int32_t>(numbers.below(3)) : 1);
    stratum.columns += stratum.counts.back();
    // Some tied, some impossible.
    const double log = numbers.below(6) == 0 && i > 0 ? stratum.logs.back() : -spread * std::fabs(numbers.bell());
    stratum.logs.push_back(numbers.below(12) == 0 ? -kInfinity : log);
  }
  stratum.columns += undrawn;
  return stratum;
}

TEST_CASE("the log of a sampled total is that of its definition") {
  Numbers numbers(1);
  for (int i = 0; i < 600; i++) {
    constexpr double kSpreads[] = {0.01, 1, 10, 300, 2000};
    const double spread = kSpreads[numbers.below(5)];
    std::vector<Draws> strata;
    for (std::int64_t h = 0; h <= numbers.below(2); h++) {
      const int n = static_cast<int>(i % 25 == 0 ? 33 : 2 + numbers.below(9));
      strata.push_back(drawn(numbers, n, static_cast<int>(numbers.below(20)), spread));
    }
    const double ownLog = numbers.below(5) == 0 ? -kInfinity : -spread * numbers.uniform();
    const LogTotal got = estimate(ownLog, strata);
    const double gate = 1e-13 * std::max(100.0, 100 * spread);
    CHECK_NEAR(got.plain, static_cast<double>(logTotal(ownLog, strata, {}, {})), gate);
    CHECK_NEAR(got.value, static_cast<double>(naiveValue(ownLog, strata)), gate);
    if (ownLog == -kInfinity) {
      CHECK_EQUAL(got.upper, -kInfinity);
    } else {
      const bool whole = std::all_of(strata.begin(), strata.end(), [](const Draws& stratum) {
        return static_cast<std::int64_t>(stratum.logs.size()) == stratum.size;
      });
      CHECK_NEAR(got.upper, static_cast<double>(whole ? got.value : naiveUpper(ownLog, strata)), gate);
    }
    CHECK(got.variance >= 0);
  }
}

// The mean over all subsets of n, each as likely.
double expectation(const std::vector<double>& logs, std::size_t n, double LogTotal::*of) {
  std::vector<bool> picked(logs.size(), false);
  std::fill(picked.begin(), picked.begin() + static_cast<std::ptrdiff_t>(n), true);
  Values found;
  do {
    const auto all = static_cast<std::int64_t>(logs.size());
    Draws stratum{{}, std::vector<std::int32_t>(n, 1), all, all};
    for (std::size_t i = 0; i < logs.size(); i++) {
      if (picked[i]) stratum.logs.push_back(logs[i]);
    }
    found.push_back(estimate(0, {stratum}).*of);
  } while (std::prev_permutation(picked.begin(), picked.end()));
  return static_cast<double>(meanOf(found));
}

TEST_CASE("the log of a sampled total is biased downwards as it is; corrected, by far less, over all possible draws") {
  const std::vector<double> logs{-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, -4, -1.2, -0.3, -2.2};
  Values all(logs.begin(), logs.end());
  all.push_back(0);
  const auto truth = static_cast<double>(referenceLogSumExp(all));
  for (const std::size_t n : {3, 4, 6, 8}) {
    const double plain = expectation(logs, n, &LogTotal::plain) - truth;
    CHECK(plain < 0);
    CHECK(std::fabs(expectation(logs, n, &LogTotal::value) - truth) < 0.35 * std::fabs(plain));
  }
}

TEST_CASE("the log of a sampled total errs to both sides of the truth where one column is all there is") {
  std::vector<double> logs(16, -40);
  logs[0] = 0;
  const double truth = std::log(2 + 15 * std::exp(-40));
  for (const std::size_t n : {4, 6}) {
    CHECK(expectation(logs, n, &LogTotal::value) < truth);
    CHECK_NEAR(expectation(logs, n, &LogTotal::upper), truth, 1e-10);
  }
}

TEST_CASE("the log of a total of everything is exact") {
  Numbers numbers(3);
  for (int i = 0; i < 200; i++) {
    const auto n = static_cast<std::size_t>(1 + numbers.below(9));
    Draws stratum{{}, std::vector<std::int32_t>(n, 1), static_cast<std::int64_t>(n), static_cast<std::int64_t>(n)};
    for (std::size_t j = 0; j < n; j++) stratum.logs.push_back(numbers.between(-900, 900));
    Values all(stratum.logs.begin(), stratum.logs.end());
    all.push_back(-1);
    const auto truth = static_cast<double>(referenceLogSumExp(all));
    const LogTotal total = estimate(-1, {stratum});
    CHECK_NEAR(total.value, truth, 1e-13 * std::max(10.0, std::fabs(truth)));
    CHECK_EQUAL(total.lastCorrection, 0.0);
    CHECK_EQUAL(total.variance, 0.0);
    CHECK_EQUAL(total.upper, total.value);
  }
}

// --- whole steps
// ---------------------------------------------------------------------------------------------------------

struct Sample {
  std::int64_t columns;
  std::vector<std::int32_t> row, signature, own, columnSignature;
  std::vector<double> sum;
  std::vector<std::int64_t> length, turn;  // turn empty: none

  SampledPairs input(double confidence = 0.95) const {
    return {static_cast<std::int64_t>(row.size()),
            static_cast<std::int64_t>(own.size()),
            columns,
            row.data(),
            signature.data(),
            sum.data(),
            own.data(),
            length.data(),
            columnSignature.data(),
            turn.empty() ? nullptr : turn.data(),
            confidence};
  }
  void add(std::int32_t r, std::int32_t prompt, double score) {
    row.push_back(r);
    signature.push_back(prompt);
    sum.push_back(score);
  }
  void shuffle(Numbers& numbers) {
    for (std::size_t i = row.size(); i-- > 1;) {
      const auto j = static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1));
      std::swap(row[i], row[j]);
      std::swap(signature[i], signature[j]);
      std::swap(sum[i], sum[j]);
    }
  }
};

// [rows, columns] scores, all pairs of different prompts of which (`negatives` of each kind at most) are drawn.
Sample sampled(Numbers& numbers, std::int64_t columns, std::int64_t perPrompt, std::int64_t negatives, bool repeated,
               bool byTurn, std::vector<double>* scores = nullptr) {
  Sample sample{columns, {}, {}, {}, {}, {}, {}, {}};
  for (std::int32_t p = 0; p < columns; p++) sample.columnSignature.push_back(repeated ? p / 2 * 2 : p);
  if (byTurn) {
    for (std::int64_t p = 0; p < columns; p++) sample.turn.push_back(p % 3);
  }
  for (std::int64_t r = 0; r < columns * perPrompt; r++) {
    const auto own = static_cast<std::int32_t>(r % columns);
    const std::int32_t ownSignature = sample.columnSignature[static_cast<std::size_t>(own)];
    sample.own.push_back(own);
    sample.length.push_back(1 + numbers.below(6));
    std::vector<double> row;
    for (std::int32_t p = 0; p < columns; p++) row.push_back(-3 * std::fabs(numbers.bell()));
    for (std::int32_t p = 0; p < columns; p++)
      row[static_cast<std::size_t>(p)] =
          row[static_cast<std::size_t>(sample.columnSignature[static_cast<std::size_t>(p)])];
    if (scores != nullptr) scores->insert(scores->end(), row.begin(), row.end());
    std::vector<std::int32_t> kinds[2];
    for (std::int32_t p = 0; p < columns; p++) {
      if (sample.columnSignature[static_cast<std::size_t>(p)] != p || p == ownSignature) continue;
      const bool sameTurn = byTurn && [&] {
        for (std::int32_t q = 0; q < columns; q++) {
          if (sample.columnSignature[static_cast<std::size_t>(q)] == p && q % 3 == own % 3) return true;
        }
        return false;
      }();
      kinds[sameTurn ? 0 : 1].push_back(p);
    }
    sample.add(static_cast<std::int32_t>(r), ownSignature, row[static_cast<std::size_t>(own)]);
    for (auto& kind : kinds) {
      for (std::int64_t i = 0; i < std::min(negatives, static_cast<std::int64_t>(kind.size())); i++) {
        std::swap(kind[static_cast<std::size_t>(i)],
                  kind[static_cast<std::size_t>(i + numbers.below(static_cast<std::int64_t>(kind.size()) - i))]);
        const std::int32_t prompt = kind[static_cast<std::size_t>(i)];
        sample.add(static_cast<std::int32_t>(r), prompt, row[static_cast<std::size_t>(prompt)]);
      }
    }
  }
  return sample;
}

SampledInference infer(const Sample& sample, int threads = 1, double confidence = 0.95) {
  ThreadPool pool(threads);
  JobControl control;
  SampledInference out;
  CHECK(inferPairs(sample.input(confidence), out, pool, control) == Outcome::Done);
  CHECK_EQUAL(out.wrongRow, -1);
  if (out.used > 0) CHECK_EQUAL(control.doneUnits.load(), control.totalUnits.load());
  return out;
}

bool sameBits(const SampledInference& a, const SampledInference& b) {
  return std::memcmp(a.figures, b.figures, sizeof a.figures) == 0 &&
         std::memcmp(&a.matchedSeq, &b.matchedSeq,
                     reinterpret_cast<const char*>(&a + 1) - reinterpret_cast<const char*>(&a.matchedSeq)) == 0 &&
         a.nonFinite == b.nonFinite && a.placeholders == b.placeholders && a.used == b.used;
}

TEST_CASE("all pairs give what inferStep gives") {
  Numbers numbers(5);
  for (const bool repeated : {false, true}) {
    for (const bool byTurn : {false, true}) {
      std::vector<double> scores;
      const Sample sample = sampled(numbers, 14, 5, 100, repeated, byTurn, &scores);
      const SampledInference got = infer(sample);
      CHECK(got.complete);
      const auto rows = static_cast<std::int64_t>(sample.own.size());
      ThreadPool pool(1);
      JobControl control;
      RowStatsBuffers buffers(rows, kMaxTopK);
      const ScoreRows labels{sample.own.data(), sample.length.data(), sample.columnSignature.data()};
      scoreStats({scores.data(), DType::Float64, rows, sample.columns, sample.columns, 1}, labels, buffers.stats, pool,
                 control);
      Inference wanted;
      inferStep({scores.data(), rows, sample.columns, labels, &buffers.stats, 0, 1}, wanted, pool, control);
      CHECK_EQUAL(got.describesSampling, wanted.calibrated);
      for (int f = 0; f < 4; f++) {
        const SampledFigure& figure = got.figures[f];
        const FigureInference& same = wanted.figures[kSampledFigures[f]];
        CHECK_NEAR(figure.estimate, same.estimate, 1e-13);
        CHECK_NEAR(figure.batch.low, same.batchLow, 1e-12);
        CHECK_NEAR(figure.batch.high, same.batchHigh, 1e-12);
        CHECK_NEAR(figure.population.low, same.populationLow, 1e-12);
        CHECK_NEAR(figure.population.high, same.populationHigh, 1e-12);
        CHECK_EQUAL(figure.drawVariance, 0.0);
        CHECK_EQUAL(figure.biasBelow, 0.0);
      }
      for (int i = 0; i < kBestCounts; i++) {
        CHECK_EQUAL(got.bestAtLeast[i], wanted.figures[kRetrieval1 + i].estimate);
        CHECK_EQUAL(got.bestAtMost[i], got.bestAtLeast[i]);
      }
    }
  }
}

TEST_CASE("neither the order of pairs, threads nor instruction sets change a bit") {
  Numbers numbers(7);
  for (const bool byTurn : {false, true}) {
    Sample sample = sampled(numbers, 40, 8, 9, true, byTurn);
    const SampledInference wanted = infer(sample, 1, 0.99);
    CHECK(!wanted.complete);
    for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
      if (!forceIsa(isaName(isa))) continue;
      for (const int threads : {1, 2, 5, 16}) {
        sample.shuffle(numbers);
        CHECK_EQUAL(sameBits(infer(sample, threads, 0.99), wanted), true, isaName(isa), ", ", threads, " threads");
      }
    }
  }
}

TEST_CASE("a column of many does what it does in a step without turns, where all have one turn") {
  Numbers numbers(9);
  Sample sample = sampled(numbers, 24, 3, 6, true, false);
  const SampledInference wanted = infer(sample);
  sample.turn.assign(24, 5);
  CHECK(sameBits(infer(sample), wanted));
}

TEST_CASE("an interval grows with its confidence") {
  Numbers numbers(11);
  const Sample sample = sampled(numbers, 20, 4, 6, false, false);
  double last = 0;
  for (const double confidence : {0.1, 0.5, 0.9, 0.95, 0.99, 0.999999}) {
    const Interval batch = infer(sample, 1, confidence).figures[0].batch;
    CHECK(batch.high - batch.low > last);
    last = batch.high - batch.low;
  }
}

TEST_CASE("rows that no figure can be made of are left out, and told") {
  Numbers numbers(13);
  Sample sample = sampled(numbers, 10, 2, 4, false, false);
  const auto ofRow = [&](std::int32_t r) {
    return static_cast<std::size_t>(std::find(sample.row.begin(), sample.row.end(), r) - sample.row.begin());
  };
  sample.sum[ofRow(3)] = -kInfinity;                                    // own
  sample.sum[ofRow(7) + 2] = std::numeric_limits<double>::quiet_NaN();  // a negative
  sample.sum[ofRow(8) + 1] = -kInfinity;                                // impossible under that prompt: fine
  for (std::size_t i = 0; i < 5; i++) sample.sum[ofRow(12) + i] = 0;
  const SampledInference got = infer(sample);
  CHECK(got.nonFinite == std::vector<std::int32_t>({3, 7}));
  CHECK(got.placeholders == std::vector<std::int32_t>({12}));
  CHECK_EQUAL(got.used, 17);
  CHECK(std::isfinite(got.figures[0].estimate));
}

TEST_CASE("pairs that contradict each other are refused") {
  Numbers numbers(17);
  const Sample right = sampled(numbers, 10, 2, 4, false, false);
  const auto wrongRow = [](const Sample& sample) {
    ThreadPool pool(1);
    JobControl control;
    SampledInference out;
    inferPairs(sample.input(), out, pool, control);
    return out.wrongRow;
  };
  CHECK_EQUAL(wrongRow(right), -1);
  Sample twice = right;
  twice.signature[2] = twice.signature[1];
  CHECK_EQUAL(wrongRow(twice), 0);
  Sample noOwn = right;
  noOwn.row[5] = 0;
  CHECK(wrongRow(noOwn) >= 0);
  Sample unscored = right;
  unscored.length[4] = 0;
  CHECK_EQUAL(wrongRow(unscored), 4);
  Sample alone = right;
  alone.own.push_back(0);
  alone.length.push_back(3);
  CHECK_EQUAL(wrongRow(alone), 20);
}

TEST_CASE("nothing is nothing") {
  Sample sample{3, {}, {}, {}, {0, 1, 2}, {}, {}, {}};
  CHECK_EQUAL(infer(sample).used, 0);
  sample.columns = 0;
  CHECK_EQUAL(infer(sample).used, 0);
}

TEST_CASE("a cancelled job ends") {
  Numbers numbers(19);
  const Sample sample = sampled(numbers, 40, 20, 20, false, false);
  ThreadPool pool(2);
  JobControl control;
  control.cancelled = true;
  SampledInference out;
  CHECK(inferPairs(sample.input(), out, pool, control) == Outcome::Cancelled);
}

}  // namespace

int main() { return collapsar::test::runCases(); }
