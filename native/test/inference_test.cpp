// inferStep against the plainest reckoning: prompts really left out, labels really permuted, every sum in long double.
#include "engine/inference/inference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "allocations_elsewhere.h"
#include "check.h"
#include "engine/inference/random.h"
#include "engine/step_moments.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"
#include "test/references/intervals.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Result {
  Inference inference;
  StepMoments moments;
  Outcome outcome;
};

Result infer(const Step& step, std::int64_t permutations = 0, std::uint64_t seed = 1, int threads = 1,
             bool cancel = false, std::int64_t mostTabled = InferenceInput{}.mostTabled) {
  ThreadPool pool(threads);
  JobControl control;
  RowStatsBuffers buffers(step.rows(), 0);
  const ScoreRows labels{step.own.data(), step.lengths.data(),
                         step.signature.empty() ? nullptr : step.signature.data()};
  const ScoreMatrix matrix{step.scores.data(), DType::Float64, step.rows(), step.columns, step.columns, 1};
  scoreStats(matrix, labels, buffers.stats, pool, control);
  control.cancelled = cancel;
  const std::int64_t before = control.doneUnits.load();
  Result result{};
  result.outcome =
      inferStep({step.scores.data(), step.rows(), step.columns, labels, &buffers.stats, permutations, seed, mostTabled},
                result.inference, pool, control);
  if (!cancel) CHECK_EQUAL(control.doneUnits.load() - before, control.totalUnits.load());
  if (!cancel) CHECK_EQUAL(control.totalUnits.load(), step.rows() * (step.columns + permutations));
  result.moments = stepMoments(buffers.stats, labels.lengths, step.rows());
  return result;
}

// Rows sampled from the softmax over `outcomes` of each prompt's logits, so that scores are exact log-probs.
Step sampled(std::uint64_t seed, std::int64_t columns, const std::vector<std::int64_t>& groups, double strength,
             int outcomes = 24) {
  Numbers numbers(seed);
  Step step;
  step.columns = columns;
  std::vector<std::vector<double>> logProbs;
  for (std::int64_t p = 0; p < columns; p++) {
    std::vector<double> logits;
    double total = 0;
    for (int z = 0; z < outcomes; z++) {
      logits.push_back(strength * numbers.bell());
      total += std::exp(logits.back());
    }
    for (double& logit : logits) logit -= std::log(total);
    logProbs.push_back(logits);
  }
  for (std::size_t p = 0; p < groups.size(); p++) {
    for (std::int64_t k = 0; k < groups[p]; k++) {
      double left = numbers.uniform();
      int z = 0;
      while (z + 1 < outcomes && (left -= std::exp(logProbs[p][static_cast<std::size_t>(z)])) > 0) z++;
      for (const auto& prompt : logProbs) step.scores.push_back(prompt[static_cast<std::size_t>(z)]);
      step.own.push_back(static_cast<std::int32_t>(p));
      step.lengths.push_back(1 + z % 5);
    }
  }
  return step;
}

// The prompts once more, as columns of their own that share the signatures of the first ones and take every other row.
Step repeated(const Step& step) {
  Step out = step;
  out.columns = 2 * step.columns;
  out.scores.clear();
  for (std::int64_t r = 0; r < step.rows(); r++) {
    const std::vector<double> scores = step.row(r);
    for (int copy = 0; copy < 2; copy++) out.scores.insert(out.scores.end(), scores.begin(), scores.end());
    if (r % 2 == 1) out.own[static_cast<std::size_t>(r)] += static_cast<std::int32_t>(step.columns);
  }
  for (std::int64_t p = 0; p < out.columns; p++) out.signature.push_back(static_cast<std::int32_t>(p % step.columns));
  return out;
}

// Labels as if chance had no part: not those that the scores describe.
Step relabelled(Step step, std::int64_t every) {
  for (std::int64_t r = 0; r < step.rows(); r += every) {
    const std::vector<double> scores = step.row(r);
    step.own[static_cast<std::size_t>(r)] =
        static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  return step;
}

void checkErrors(const Step& step, const Inference& inference) {
  bool singles = false;
  for (const std::int64_t size : groupSizes(step)) singles = singles || size == 1;
  for (int f = 0; f < kFigures; f++) {
    const auto figure = static_cast<Figure>(f);
    const FigureInference& got = inference.figures[f];
    long double batch = naivePosteriorVariance(step, figure);
    if (singles || !inference.calibrated || figure == kMiSeqLoo) {
      batch = std::max(batch, naiveStratifiedVariance(step, figure));
    }
    CHECK_NEAR(got.batchError, static_cast<double>(std::sqrt(batch)), 1e-8, "figure ", f);
    CHECK_NEAR(got.populationError, static_cast<double>(naivePopulationError(step, figure, inference.calibrated)), 1e-8,
               "figure ", f);
    CHECK_NEAR(got.estimate, static_cast<double>(meanOver(step, figure, false)), 1e-12, "figure ", f);
    CHECK(got.batchLow <= got.estimate && got.estimate <= got.batchHigh);
    CHECK(got.populationLow <= got.estimate && got.estimate <= got.populationHigh);
  }
}

// Every end of every interval, and what is said of the step. Square roots of variances that should be 0 are rounding:
// `tolerance` bounds them, that of leave-one-out values, which have no bound, being ten times as large.
void checkIntervals(const Step& step, const Inference& inference, double tolerance) {
  CHECK_EQUAL(inference.calibrated, naiveCalibrated(step));
  for (int f = 0; f < kFigures; f++) {
    const auto figure = static_cast<Figure>(f);
    const FigureInference& got = inference.figures[f];
    const double gate = figure == kMiSeqLoo ? 10 * tolerance : tolerance;
    const ReferenceInterval batch = naiveBatchInterval(step, figure, inference.calibrated);
    CHECK_NEAR(got.batchLow, static_cast<double>(batch.low), gate, "figure ", f);
    CHECK_NEAR(got.batchHigh, static_cast<double>(batch.high), gate, "figure ", f);
    const ReferenceInterval population = naivePopulationInterval(step, figure, inference.calibrated);
    CHECK_NEAR(got.populationLow, static_cast<double>(population.low), gate, "figure ", f);
    CHECK_NEAR(got.populationHigh, static_cast<double>(population.high), gate, "figure ", f);
    for (const auto& [low, high] : {std::pair{got.batchLow, got.batchHigh}, {got.populationLow, got.populationHigh}}) {
      CHECK(std::isnan(low) || (low <= got.estimate && got.estimate <= high));
    }
  }
}

bool sameBits(const Inference& a, const Inference& b) {
  return std::memcmp(a.figures, b.figures, sizeof a.figures) == 0 && a.withinVariance == b.withinVariance &&
         a.calibrated == b.calibrated && a.among.size() == b.among.size() &&
         std::memcmp(a.among.data(), b.among.data(), a.among.size() * sizeof(AmongInference)) == 0 &&
         std::memcmp(&a.margin, &b.margin, sizeof a.margin) == 0 && a.marginRows == b.marginRows;
}

}  // namespace

TEST_CASE("errors equal those of prompts really left out and posteriors really summed") {
  for (const double strength : {0.1, 0.8, 2.5}) {
    const Step step = sampled(11, 10, std::vector<std::int64_t>(10, 3), strength);
    checkErrors(step, infer(step).inference);
  }
  const Step few = sampled(12, 5, {4, 4, 4, 4, 4}, 1.0);
  checkErrors(few, infer(few).inference);
}

TEST_CASE("intervals are what docs/reference/intervals.md says, from no dependence to a saturated one") {
  const std::vector<std::vector<std::int64_t>> groupings = {
      {3, 3, 3, 3, 3, 3, 3}, {2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}, {4, 4, 4},       {5, 5},
      {1, 5, 0, 2, 3, 0, 4}, {14, 2, 2, 2, 2},   {0, 6, 0, 0},    {1, 7, 1, 2, 2}, {0, 3, 3, 0, 0, 0, 0, 0, 0, 0}};
  for (const double strength : {0.1, 0.8, 2.5, 6.0, 40.0}) {
    if (kSanitized && strength != 0.8) continue;
    std::uint64_t seed = 100;
    for (const std::vector<std::int64_t>& groups : groupings) {
      const Step step = sampled(seed++, static_cast<std::int64_t>(groups.size()), groups, strength);
      checkIntervals(step, infer(step).inference, strength > 10 ? 1e-7 : 1e-9);
    }
  }
}

TEST_CASE("intervals of repeated prompts, ties, other labels, prompts that nothing was sampled from") {
  const std::vector<std::vector<std::int64_t>> groupings = {
      {4, 4, 6, 4}, {1, 2, 3, 6, 1}, {2, 2, 2}, {1, 2, 0, 9, 1, 1, 2}};
  for (const double strength : {0.4, 2.0, 40.0, 120.0}) {
    if (kSanitized && strength != 2.0) continue;
    const double tolerance = strength > 100 ? 1e-6 : strength > 10 ? 1e-7 : 1e-9;
    std::uint64_t seed = 200;
    for (const std::vector<std::int64_t>& groups : groupings) {
      const Step step = sampled(seed++, static_cast<std::int64_t>(groups.size()), groups, strength);
      checkIntervals(repeated(step), infer(repeated(step)).inference, tolerance);
      checkIntervals(relabelled(step, 1), infer(relabelled(step, 1)).inference, tolerance);
      const Step both = repeated(relabelled(step, 3));
      checkIntervals(both, infer(both).inference, tolerance);
    }
  }
  // Few prompts decide, each of two columns: seven degrees of freedom.
  const Step few = repeated(sampled(204, 4, {4, 4, 6, 4}, 6));
  checkIntervals(few, infer(few).inference, 1e-9);
  // Rows whose label is impossible by the scores: with one of the best columns left out it is among the best two.
  Step impossible;
  impossible.columns = 2;
  for (std::int32_t r = 0; r < 10; r++) {
    impossible.own.push_back(r < 6 ? 0 : 1);
    for (const double score : {-1.0 - 0.1 * r, -900.0}) impossible.scores.push_back(score);
    impossible.lengths.push_back(3);
  }
  checkIntervals(repeated(impossible), infer(repeated(impossible)).inference, 1e-7);
  // Ties, and more columns than the best that are kept.
  Step tied = sampled(210, 11, std::vector<std::int64_t>(11, 3), 1.5);
  for (double& score : tied.scores) score = std::round(score);
  checkIntervals(tied, infer(tied).inference, 1e-9);
  checkIntervals(repeated(tied), infer(repeated(tied)).inference, 1e-9);
  // A column without rows is a thousand times as near as all others, or as far beyond what exp() has.
  for (const double above : {7.0, 2000.0}) {
    Step unsampled = sampled(211, 6, {3, 3, 0, 3, 3, 3}, 1.5);
    for (std::int64_t r = 0; r < unsampled.rows(); r++) unsampled.scores[static_cast<std::size_t>(r * 6 + 2)] += above;
    checkIntervals(unsampled, infer(unsampled).inference, 1e-8);
  }
}

TEST_CASE("rows are said to be sampled as scored up to three deviations") {
  bool calibrated[2] = {};
  Step step = sampled(212, 6, std::vector<std::int64_t>(6, 12), 0.7);
  for (std::int64_t r = 0; r < step.rows(); r++) {
    const std::vector<double> scores = step.row(r);
    step.own[static_cast<std::size_t>(r)] =
        static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    const Inference got = infer(step).inference;
    CHECK_EQUAL(got.calibrated, naiveCalibrated(step), r, " rows relabelled");
    calibrated[got.calibrated] = true;
  }
  CHECK(calibrated[0] && calibrated[1]);
}

TEST_CASE(
    "hits that vary by rounding alone move no interval: the rows of one prompt hit for certain, those of another "
    "miss") {
  for (double apart = 16; apart < 60; apart += kSanitized ? 4 : 0.25) {
    Step step, reversed;
    step.columns = reversed.columns = 4;
    for (std::int32_t r = 0; r < 6; r++) {
      const std::int32_t own = r / 3;
      for (std::int32_t p = 0; p < 4; p++) {
        // Of the second prompt's rows a column that has none is the best.
        step.scores.push_back(p == own ? -20.0 : own == 1 && p == 3 ? -19.0 : -20.0 - apart - 0.1 * (r + p));
      }
      step.own.push_back(own);
      step.lengths.push_back(3);
    }
    for (std::int64_t r = 5; r >= 0; r--) {
      for (const double score : step.row(r)) reversed.scores.push_back(score);
      reversed.own.push_back(step.own[static_cast<std::size_t>(r)]);
      reversed.lengths.push_back(3);
    }
    const Inference one = infer(step).inference, other = infer(reversed).inference;
    CHECK_EQUAL(one.figures[kRetrieval1].estimate, 0.5);
    for (const Figure figure : {kRetrieval1, kRetrieval2}) {
      const FigureInference &a = one.figures[figure], &b = other.figures[figure];
      CHECK_NEAR(a.batchLow, b.batchLow, 1e-7, apart, " nats apart");
      CHECK_NEAR(a.populationLow, b.populationLow, 1e-7, apart, " nats apart");
    }
    checkIntervals(step, one, 1e-7);
  }
}

TEST_CASE("uneven groups, prompts of one row, prompts without rows") {
  const Step step = sampled(13, 9, {1, 5, 0, 2, 3, 0, 4, 1, 2}, 1.2);
  const Inference got = infer(step).inference;
  CHECK(!got.withinVariance);
  checkErrors(step, got);
  const Step even = sampled(14, 6, {2, 3, 2, 0, 4, 2}, 1.2);
  CHECK(infer(even).inference.withinVariance);
  checkErrors(even, infer(even).inference);
}

TEST_CASE("repeated prompts share a signature") {
  Step step = sampled(15, 10, std::vector<std::int64_t>(10, 2), 1.5);
  step.signature = {0, 1, 2, 3, 0, 1, 6, 7, 8, 0};
  for (std::int64_t r = 0; r < step.rows(); r++) {
    for (std::int32_t p = 0; p < step.columns; p++) {
      step.scores[static_cast<std::size_t>(r * step.columns + p)] =
          step.scores[static_cast<std::size_t>(r * step.columns + step.signature[static_cast<std::size_t>(p)])];
    }
  }
  checkErrors(step, infer(step).inference);
  // Two columns with one prompt: no other prompt to tell the row from.
  Step twins = sampled(16, 3, {2, 2, 2}, 1.0);
  twins.signature = {0, 0, 0};
  const Inference got = infer(twins, 9).inference;
  CHECK(std::isnan(got.figures[kMiSeqLoo].estimate) && std::isnan(got.figures[kMiSeqLoo].pValue));
  CHECK_EQUAL(got.figures[kRetrieval1].estimate, 1.0);
}

TEST_CASE("rows that the scores do not describe fall back to prompts as strata") {
  // Every row under its best column's label, chance or not: far more matched than the scores allow.
  const Step step = relabelled(sampled(17, 8, std::vector<std::int64_t>(8, 6), 0.4), 1);
  const Inference got = infer(step).inference;
  CHECK(!got.calibrated);
  checkErrors(step, got);
  CHECK(infer(sampled(17, 8, std::vector<std::int64_t>(8, 6), 0.4)).inference.calibrated);
}

// The mean over rows and over all subsets of k - 1 other prompts of own - ln of the mean of exp, prompts once each.
long double naiveAmong(const Step& step, int k) {
  long double total = 0;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    const std::vector<double> scores = step.row(r);
    const std::int32_t own = step.own[static_cast<std::size_t>(r)];
    std::vector<std::int32_t> known = {step.signatureOf(own)};
    std::vector<double> others;
    for (std::int32_t p = 0; p < step.columns; p++) {
      if (std::find(known.begin(), known.end(), step.signatureOf(p)) != known.end()) continue;
      known.push_back(step.signatureOf(p));
      others.push_back(scores[static_cast<std::size_t>(p)]);
    }
    const long double score = scores[static_cast<std::size_t>(own)];
    long double sum = 0;
    std::int64_t subsets = 0;
    for (std::uint32_t subset = 0; subset < 1u << others.size(); subset++) {
      if (__builtin_popcount(subset) != k - 1) continue;
      long double largest = score, exponentials = 0;
      for (std::size_t j = 0; j < others.size(); j++) {
        if (subset >> j & 1) largest = std::max<long double>(largest, others[j]);
      }
      for (std::size_t j = 0; j < others.size(); j++) {
        if (subset >> j & 1) exponentials += std::exp(others[j] - largest);
      }
      exponentials += std::exp(score - largest);
      sum += score - (largest + std::log(exponentials / k));
      subsets++;
    }
    total += sum / static_cast<long double>(subsets);
  }
  return total / static_cast<long double>(step.rows());
}

TEST_CASE("information among k prompts is the mean over all subsets: for two and for all exactly, else over seeds") {
  for (const double strength : {0.1, 1.0, 6.0, 120.0}) {
    for (const std::int64_t columns : {2, 3, 8, 11}) {
      const Step plain =
          sampled(40, columns, std::vector<std::int64_t>(static_cast<std::size_t>(columns), 2), strength);
      for (const Step& step : {plain, repeated(plain)}) {
        const Inference got = infer(step).inference;
        int k = 2;
        for (const SubsetInference& among : got.among) {
          const auto naive = static_cast<double>(naiveAmong(step, k));
          if (k == 2 || k == columns) CHECK_NEAR(among.estimate, naive, 1e-12, columns, " columns, k ", k);
          CHECK(among.estimate <= std::log(k) + 1e-12);
          CHECK(among.batchLow <= among.estimate && among.estimate <= among.batchHigh);
          k *= 2;
        }
        CHECK(k > columns && k <= 2 * columns);
      }
    }
  }
  const Step step = sampled(41, 11, std::vector<std::int64_t>(11, 2), 1.0);
  for (std::size_t size = 1; size < 3; size++) {
    double sum = 0, squares = 0;
    const int seeds = kSanitized ? 100 : 1000;
    for (int seed = 0; seed < seeds; seed++) {
      const double drawn = infer(step, 0, static_cast<std::uint64_t>(seed)).inference.among[size].estimate;
      sum += drawn;
      squares += drawn * drawn;
    }
    const double mean = sum / seeds, error = std::sqrt((squares / seeds - mean * mean) / seeds);
    CHECK(error > 0 && error < 0.01);
    CHECK_NEAR(mean, static_cast<double>(naiveAmong(step, 2 << size)), 4 * error, size);
  }
}

namespace {

// Rows of the kept prompts among these, in long double: all of them, or (pairs) each pair of an own and another one.
long double naiveOverPrompts(const Step& step, const std::vector<std::int32_t>& kept, bool pairs) {
  long double total = 0;
  std::int64_t counted = 0;
  for (const std::int32_t own : kept) {
    long double ofOwn = 0;
    std::int64_t rows = 0;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      if (step.signatureOf(step.own[static_cast<std::size_t>(r)]) != own) continue;
      const std::vector<double> scores = step.row(r);
      const long double score = scores[static_cast<std::size_t>(step.own[static_cast<std::size_t>(r)])];
      long double sum = 0, value = 0;
      for (const std::int32_t other : kept) {
        const long double ratio = std::exp(static_cast<long double>(scores[static_cast<std::size_t>(other)]) - score);
        sum += ratio;
        if (other != own) value += std::log(2 / (1 + ratio));
      }
      ofOwn += pairs ? value : std::log(static_cast<long double>(kept.size()) / sum);
      rows++;
    }
    if (rows == 0) continue;
    total += pairs ? ofOwn / static_cast<long double>(rows) : ofOwn;
    counted += pairs ? static_cast<std::int64_t>(kept.size()) - 1 : rows;
  }
  return total / static_cast<long double>(counted);
}

void checkOverPrompts(const Step& step, const OverPrompts& got, bool pairs) {
  std::vector<std::int32_t> all;
  for (std::int32_t p = 0; p < step.columns; p++) {
    if (std::find(all.begin(), all.end(), step.signatureOf(p)) == all.end()) all.push_back(step.signatureOf(p));
  }
  CHECK_NEAR(got.estimate, static_cast<double>(naiveOverPrompts(step, all, pairs)), 1e-12);
  std::vector<long double> without;
  long double mean = 0, squares = 0;
  for (const std::int32_t left : all) {
    std::vector<std::int32_t> kept;
    for (const std::int32_t prompt : all) {
      if (prompt != left) kept.push_back(prompt);
    }
    without.push_back(naiveOverPrompts(step, kept, pairs));
    mean += without.back() / static_cast<long double>(all.size());
  }
  for (const long double value : without) squares += (value - mean) * (value - mean);
  const auto prompts = static_cast<long double>(all.size());
  CHECK_NEAR(got.error, static_cast<double>(std::sqrt((prompts - 1) / prompts * squares)), 1e-12);
}

}  // namespace

TEST_CASE("errors over prompts are those of prompts really left out, with ragged groups and equal columns too") {
  for (const double strength : {0.1, 1.0, 6.0}) {
    for (const std::vector<std::int64_t>& groups :
         {std::vector<std::int64_t>{3, 1, 2}, {2, 2, 2, 2}, {4, 0, 1, 5, 2, 1, 3}}) {
      const Step plain = sampled(60, static_cast<std::int64_t>(groups.size()), groups, strength);
      for (const Step& step : {plain, repeated(plain)}) {
        const Inference got = infer(step).inference;
        checkOverPrompts(step, got.overPrompts, false);
        checkOverPrompts(step, got.among[0].overPrompts, true);
      }
    }
  }
  for (const std::int64_t columns : {1, 2}) {
    const Inference few =
        infer(sampled(61, columns, std::vector<std::int64_t>(static_cast<std::size_t>(columns), 3), 1.0)).inference;
    CHECK(std::isnan(few.overPrompts.error));
  }
}

TEST_CASE("information among prompts whose scores are beyond what exp() has, and impossible ones") {
  for (const double own : {-1.0, -650.0, -5000.0}) {
    for (const double apart : {1.0, 90.0, 800.0}) {
      Step step;
      step.columns = 8;
      for (std::int32_t r = 0; r < 16; r++) {
        step.own.push_back(r % 8);
        step.lengths.push_back(3);
        for (std::int32_t p = 0; p < 8; p++) {
          const bool impossible = p % 3 == 1 && p != r % 8;
          step.scores.push_back(p == r % 8 ? own : impossible ? -kInfinity : -2.0 - apart * p);
        }
      }
      const Inference got = infer(step).inference;
      for (const auto& [size, k] : {std::pair{0u, 2}, {2u, 8}}) {
        const auto naive = static_cast<double>(naiveAmong(step, k));
        CHECK_NEAR(got.among[size].estimate, naive, 1e-12 * std::max(1.0, std::abs(naive)), own, " ", apart);
      }
      CHECK(std::isfinite(got.among[1].estimate) && std::isfinite(got.among[1].batchLow));
      CHECK_EQUAL(got.marginRows, 0);
      CHECK(std::isnan(got.margin.estimate) && std::isnan(got.margin.batchLow));
    }
  }
}

TEST_CASE("the contrastive margin is that of the rows that no other prompt makes impossible") {
  const Step plain = sampled(42, 9, std::vector<std::int64_t>(9, 3), 2.0);
  for (Step step : {plain, repeated(plain)}) {
    for (const std::int64_t r : {4, 20}) {
      const std::int32_t own = step.own[static_cast<std::size_t>(r)];
      for (std::int32_t p = 0; p < step.columns; p++) {
        const bool other = step.signatureOf(p) == (step.signatureOf(own) + 1) % 9;
        if (other) step.scores[static_cast<std::size_t>(r * step.columns + p)] = -kInfinity;
      }
    }
    long double total = 0;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      if (r == 4 || r == 20) continue;
      const std::vector<double> scores = step.row(r);
      const std::int32_t own = step.own[static_cast<std::size_t>(r)];
      for (std::int32_t p = 0; p < 9; p++) {
        if (step.signatureOf(p) == step.signatureOf(own)) continue;
        total += (scores[static_cast<std::size_t>(own)] - scores[static_cast<std::size_t>(p)]) / 8.0L / 25.0L;
      }
    }
    const Inference got = infer(step).inference;
    CHECK_EQUAL(got.marginRows, 25);
    CHECK_NEAR(got.margin.estimate, static_cast<double>(total), 1e-12);
    CHECK(got.margin.batchLow < got.margin.estimate && got.margin.estimate < got.margin.batchHigh);
  }
}

TEST_CASE("p-values equal those of labels permuted one by one") {
  // Of like rows and seed, so that what was drawn for some is at hand for others; the last twice.
  for (const std::int64_t permutations : {1, 40, 64, 199, 199}) {
    Step step = sampled(18, 9, {3, 2, 3, 4, 1, 0, 2, 3, 2}, 0.3);
    step.signature = {0, 1, 2, 3, 4, 5, 6, 7, 2};
    step.lengths[4] = 0;
    const std::uint64_t seed = 0x123456789abcdefu;
    // Computed anew for some.
    const std::int64_t mostTabled = permutations < 64 ? 0 : 1 << 21;
    const Inference got = infer(step, permutations, seed, 2, false, mostTabled).inference;
    const std::vector<Figure> figures = {kMiSeq,      kMiSeqLoo,   kMiPerToken, kMiToken,
                                         kRetrieval1, kRetrieval2, kRetrieval4, kRetrieval8};
    for (const Figure figure : figures) {
      const auto total = [&](const std::vector<std::int32_t>& labels) {
        long double sum = 0;
        for (std::int64_t r = 0; r < step.rows(); r++)
          sum += rowValue(step, r, labels[static_cast<std::size_t>(r)], figure);
        return sum;
      };
      const long double observed = total(step.own);
      std::int64_t reached = 0;
      for (std::int64_t b = 0; b < permutations; b++) {
        std::vector<std::int32_t> labels = step.own;
        CounterRandom random(seed, static_cast<std::uint64_t>(b));
        for (std::size_t i = labels.size(); i-- > 0;)
          std::swap(labels[i], labels[random.below(static_cast<std::uint32_t>(i + 1))]);
        reached += total(labels) >= observed - 1e-9L;
      }
      CHECK_EQUAL(got.figures[figure].pValue, static_cast<double>(1 + reached) / static_cast<double>(permutations + 1),
                  "figure ", figure);
    }
  }
  CHECK(std::isnan(infer(sampled(19, 4, {2, 2, 2, 2}, 1)).inference.figures[kMiSeq].pValue));
}

TEST_CASE("tables, or values computed anew: the same bits") {
  // Fewer and more permutations than labels; labels that share signatures, and one that has more than half of a row.
  for (const double strength : {0.02, 0.3, 3.0, 120.0}) {
    const Step plain = sampled(43, 12, {3, 2, 3, 4, 1, 0, 2, 3, 2, 4, 4, 4}, strength);
    Step impossible = plain;
    for (std::size_t i = 0; i < impossible.scores.size(); i += 5) {
      if (static_cast<std::int64_t>(i) % 12 != impossible.own[i / 12]) impossible.scores[i] = -kInfinity;
    }
    for (const Step& step : {plain, repeated(plain), impossible, repeated(impossible), relabelled(plain, 2)}) {
      for (const std::int64_t permutations : {1, 7, 150, 700}) {
        const Inference tabled = infer(step, permutations, 9, 2).inference;
        CHECK(sameBits(infer(step, permutations, 9, 1, false, 0).inference, tabled));
        CHECK(sameBits(infer(step, permutations, 9, 3, false, 0).inference, tabled));
      }
    }
  }
}

TEST_CASE("p-values of more hits than a count holds before it is moved on") {
  const std::int64_t rows = 20000, permutations = 19;
  for (const double strength : {0.0, 0.02}) {
    Numbers numbers(31);
    Step step;
    step.columns = 2;
    std::vector<std::int32_t> best;
    for (std::int64_t r = 0; r < rows; r++) {
      const bool second = numbers.uniform() < 0.5;
      step.own.push_back(static_cast<std::int32_t>(r % 2));
      const bool own = numbers.uniform() < strength;
      best.push_back(own ? step.own.back() : second);
      for (std::int32_t p = 0; p < 2; p++) step.scores.push_back(p == best.back() ? -1.0 : -2.0);
      step.lengths.push_back(1);
    }
    const auto hits = [&](const std::vector<std::int32_t>& labels) {
      std::int64_t count = 0;
      for (std::size_t r = 0; r < labels.size(); r++) count += labels[r] == best[r];
      return count;
    };
    std::int64_t reached = 0;
    for (std::int64_t b = 0; b < permutations; b++) {
      std::vector<std::int32_t> labels = step.own;
      CounterRandom random(3, static_cast<std::uint64_t>(b));
      for (std::size_t i = labels.size(); i-- > 0;)
        std::swap(labels[i], labels[random.below(static_cast<std::uint32_t>(i + 1))]);
      reached += hits(labels) >= hits(step.own);
    }
    const Inference got = infer(step, permutations, 3, 2).inference;
    const double expected = static_cast<double>(1 + reached) / static_cast<double>(permutations + 1);
    CHECK_EQUAL(got.figures[kRetrieval1].pValue, expected);
    CHECK_EQUAL(got.figures[kMiSeq].pValue, expected);  // each hit adds as much
    CHECK_EQUAL(got.figures[kRetrieval2].pValue, 1.0);
  }
}

TEST_CASE("a row that is certain of another prompt leaves every figure a number") {
  // Without that prompt the row has no label but its own. One row in so many is no sign of another sampling: eleven
  // in twelve of the others have the better score under their own prompt, as the scores say.
  Step step;
  step.columns = 3;
  const double second = 1 + std::log(11.0);
  for (std::int32_t r = 0; r < 240000; r++) {
    const std::int32_t own = r % 2, best = r % 12 == 11 ? 1 - own : own;
    step.own.push_back(own);
    for (std::int32_t p = 0; p < 2; p++) step.scores.push_back(p == best ? -1.0 : -second);
    step.scores.push_back(-2000.0);  // a column without rows
    step.lengths.push_back(2);
  }
  step.scores[0] = -760.0;
  const Inference got = infer(step, 1).inference;
  CHECK(got.calibrated);
  for (const FigureInference& figure : got.figures) {
    CHECK(std::isfinite(figure.batchLow) && std::isfinite(figure.batchHigh));
    CHECK(std::isfinite(figure.populationLow) && std::isfinite(figure.populationHigh));
  }
}

TEST_CASE("p-values are uniform where labels do not matter") {
  // Labels drawn at random for rows of a strongly dependent model: Kolmogorov-Smirnov at the 0.1% level.
  Numbers numbers(20);
  std::vector<double> pValues;
  const int draws = 400;
  for (int draw = 0; draw < draws; draw++) {
    Step step = sampled(1000 + static_cast<std::uint64_t>(draw), 8, std::vector<std::int64_t>(8, 4), 1.0);
    for (std::size_t i = step.own.size(); i-- > 1;) {
      std::swap(step.own[i], step.own[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1))]);
    }
    pValues.push_back(infer(step, 199, static_cast<std::uint64_t>(draw)).inference.figures[kMiSeq].pValue);
  }
  std::sort(pValues.begin(), pValues.end());
  double distance = 0;
  for (int i = 0; i < draws; i++) {
    const double p = pValues[static_cast<std::size_t>(i)];
    distance = std::max({distance, std::abs(p - (i + 1.0) / draws), std::abs(p - static_cast<double>(i) / draws)});
  }
  CHECK(distance * std::sqrt(draws) < 1.95);
}

TEST_CASE("no dependence and exact scores: zero, known exactly, p = 1") {
  Step step = sampled(21, 8, std::vector<std::int64_t>(8, 4), 1.0);
  for (std::int64_t r = 0; r < step.rows(); r++) {
    for (std::int64_t p = 0; p < 8; p++)
      step.scores[static_cast<std::size_t>(r * 8 + p)] = -321.7 - 0.1 * static_cast<double>(r);
  }
  const Inference got = infer(step, 99).inference;
  for (const Figure figure : {kMiSeq, kMiSeqLoo, kMiPerToken, kMiToken}) {
    const FigureInference& one = got.figures[figure];
    CHECK(one.batchLow <= 0 && 0 <= one.batchHigh && one.batchHigh - one.batchLow < 1e-8);
    CHECK(one.populationLow <= 0 && 0 <= one.populationHigh && one.populationHigh - one.populationLow < 1e-8);
    CHECK_EQUAL(one.pValue, 1.0);
  }
  checkIntervals(step, got, 1e-13);  // the rounding of the scores, 3e-10 here, is all their width
  // Hits are a proportion of 32 draws, whatever the scores: not of zero width.
  CHECK_EQUAL(got.figures[kRetrieval1].estimate, 0.125);
  CHECK(got.figures[kRetrieval1].batchHigh - got.figures[kRetrieval1].batchLow > 0.1);
}

TEST_CASE("scores that differ by rounding alone do not make labels look informative") {
  Step step = sampled(22, 6, std::vector<std::int64_t>(6, 4), 1.0);
  for (std::int64_t r = 0; r < step.rows(); r++) {
    step.lengths[static_cast<std::size_t>(r)] = 1;  // longer ones would round the difference away
    for (std::int64_t p = 0; p < 6; p++) {
      const bool own = step.own[static_cast<std::size_t>(r)] == p;
      step.scores[static_cast<std::size_t>(r * 6 + p)] = own ? std::nextafter(-2000.0, 0.0) : -2000.0;
    }
  }
  const Inference got = infer(step, 99).inference;
  for (const Figure figure : {kMiSeq, kMiSeqLoo, kMiPerToken, kMiToken}) CHECK_EQUAL(got.figures[figure].pValue, 1.0);
}

TEST_CASE("all rows told apart for certain: intervals stay inside their bounds and have width where hits are counted") {
  Step step;
  step.columns = 16;
  for (std::int32_t p = 0; p < 16; p++) {
    for (int k = 0; k < 4; k++) {
      for (std::int32_t q = 0; q < 16; q++) step.scores.push_back(p == q ? -10.0 : -1500.0 - q);
      step.own.push_back(p);
      step.lengths.push_back(10);
    }
  }
  const Inference got = infer(step, 199).inference;
  CHECK(got.calibrated);
  CHECK_NEAR(got.figures[kMiSeq].estimate, std::log(16.0), 1e-12);
  CHECK(got.figures[kMiSeq].batchHigh <= std::log(16.0) + 1e-8);
  CHECK_EQUAL(got.figures[kMiSeq].pValue, 1.0 / 200);
  for (const Figure hit : {kRetrieval1, kRetrieval8}) {
    const FigureInference& one = got.figures[hit];
    CHECK_EQUAL(one.estimate, 1.0);
    CHECK(one.batchHigh == 1.0 && one.batchLow < 0.96 && one.batchLow > 0.9);
    CHECK(one.populationHigh == 1.0 && one.populationLow < 0.9 && one.populationLow > 0.5);
  }
}

TEST_CASE("impossible columns (-inf) are taken as such") {
  Step step = sampled(23, 6, std::vector<std::int64_t>(6, 3), 1.0);
  for (std::int64_t r = 0; r < step.rows(); r++) {
    for (std::int64_t p = 0; p < 6; p++) {
      if (p != step.own[static_cast<std::size_t>(r)] && (r + p) % 3 == 0)
        step.scores[static_cast<std::size_t>(r * 6 + p)] = -kInfinity;
    }
  }
  const Inference got = infer(step, 49).inference;
  for (int f = 0; f < kFigures; f++) {
    CHECK(std::isfinite(got.figures[f].estimate));
    CHECK(std::isfinite(got.figures[f].batchLow) && std::isfinite(got.figures[f].batchHigh));
    CHECK(std::isfinite(got.figures[f].populationLow) && std::isfinite(got.figures[f].populationHigh));
    CHECK(got.figures[f].pValue > 0 && got.figures[f].pValue <= 1);
  }
  checkErrors(step, got);
  checkIntervals(step, got, 1e-9);
}

TEST_CASE("the same bits on any number of threads; other seeds change p-values only") {
  const Step step = sampled(24, 12, std::vector<std::int64_t>(12, 25), 0.05);
  const Inference one = infer(step, 300, 5, 1).inference;
  for (const int threads : {1, 2, 3, 7}) CHECK(sameBits(infer(step, 300, 5, threads).inference, one));
  const Inference other = infer(step, 300, 6, 2).inference;
  CHECK(other.figures[kMiSeq].pValue != one.figures[kMiSeq].pValue);
  CHECK_EQUAL(other.figures[kMiSeq].populationLow, one.figures[kMiSeq].populationLow);
}

TEST_CASE("estimates are stepMoments' means, bit for bit") {
  const Result got = infer(sampled(25, 7, {3, 3, 4, 2, 5, 3, 3}, 1.7));
  CHECK_EQUAL(got.inference.figures[kMiSeq].estimate, got.moments.excessSeq.mean);
  CHECK_EQUAL(got.inference.figures[kMiSeqLoo].estimate, got.moments.looExcessSeq.mean);
  CHECK_EQUAL(got.inference.figures[kMiPerToken].estimate, got.moments.excessPerToken.mean);
  CHECK_EQUAL(got.inference.figures[kMiToken].estimate, got.moments.excessToken.mean);
  for (int hit = 0; hit < 4; hit++) {
    CHECK_EQUAL(got.inference.figures[kRetrieval1 + hit].estimate, static_cast<double>(got.moments.hits[hit]) / 23.0);
  }
}

TEST_CASE("too little to say anything: NaN, never a crash") {
  const auto unknown = [](double value) { return std::isnan(value); };
  Step empty;
  empty.columns = 4;
  for (const FigureInference& figure : infer(empty, 9).inference.figures) {
    CHECK(unknown(figure.estimate) && unknown(figure.batchLow) && unknown(figure.pValue));
  }
  const Inference single = infer(sampled(26, 3, {1, 0, 0}, 1.0), 9).inference;
  CHECK(std::isfinite(single.figures[kMiSeq].estimate));
  CHECK(unknown(single.figures[kMiSeq].batchLow) && unknown(single.figures[kMiSeq].populationLow));
  CHECK_EQUAL(single.figures[kMiSeq].pValue, 1.0);
  for (const FigureInference& figure : single.figures) CHECK(unknown(figure.batchLow) && unknown(figure.batchError));
  const Inference column = infer(sampled(27, 1, {5}, 1.0), 9).inference;
  CHECK_NEAR(column.figures[kMiSeq].estimate, 0.0, 1e-12);
  CHECK(unknown(column.figures[kMiSeq].batchLow) && unknown(column.figures[kMiSeqLoo].estimate));
  const Inference pair = infer(sampled(28, 2, {4, 4}, 1.0), 9).inference;
  CHECK(std::isfinite(pair.figures[kMiSeq].batchLow) && unknown(pair.figures[kMiSeq].populationLow));
  const Inference onePrompt = infer(sampled(29, 5, {0, 6, 0, 0, 0}, 1.0), 9).inference;
  CHECK(std::isfinite(onePrompt.figures[kMiSeq].batchLow));
  for (const FigureInference& figure : onePrompt.figures) CHECK(unknown(figure.populationLow));
}

TEST_CASE("a cancelled inference says so") {
  CHECK(infer(sampled(30, 8, std::vector<std::int64_t>(8, 8), 1.0), 999, 1, 2, true).outcome == Outcome::Cancelled);
}

TEST_CASE("threads that permute ask for no memory") {
  // Few permutations at a time, so that every thread gets some; columns fewer and more than those.
  for (const std::int64_t columns : {8, 600}) {
    const Step step =
        sampled(32, columns, std::vector<std::int64_t>(static_cast<std::size_t>(columns), 2400 / columns), 1.0);
    const OwnThread allowed;
    for (const std::int64_t mostTabled : {1 << 21, 0}) {
      CHECK(infer(step, 1000, 7, 3, false, mostTabled).outcome == Outcome::Done);
      CHECK_EQUAL(allocationsElsewhere.load(), 0, columns, " columns");
    }
  }
}

int main() { return runCases(); }
