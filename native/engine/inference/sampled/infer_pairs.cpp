// Rows are computed side by side and summed in their order; intervals follow from the sums.
#include "infer_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "engine/compute_in_order.h"
#include "engine/special_values.h"
#include "sampled_retrieval.h"
#include "sampled_sums.h"

namespace collapsar {

namespace {

constexpr Interval kUnknownInterval = {kNaN, kNaN, kNaN};

// Rows that a thread computes at a time: some milliseconds' work, so that memory does not grow with the step.
constexpr std::int64_t kPiecePairs = 1024, kPlaces = 64;

// Where each piece of rows begins, and the end.
std::vector<std::size_t> piecesOf(const std::vector<ScoredRow>& rows) {
  std::vector<std::size_t> starts{0};
  std::int64_t pairs = 0;
  for (std::size_t r = 0; r < rows.size(); r++) {
    pairs += rows[r].negatives + 1;
    if (pairs < kPiecePairs && r + 1 < rows.size()) continue;
    starts.push_back(r + 1);
    pairs = 0;
  }
  return starts;
}

Outcome sumPairs(const ScoredRows& scored, const StepColumns& columns, const Strata& strata, SampledSums& sums,
                 ThreadPool& pool, JobControl& control) {
  std::vector<double> rowsOf(static_cast<std::size_t>(columns.columns), 0.0);  // by signature
  bool byTurn = false;
  for (const ScoredRow& row : scored.rows()) {
    rowsOf[static_cast<std::size_t>(row.prompts[0].signature)]++;
    byTurn = byTurn || strata.strata(row.own) == 2;
  }
  std::vector<std::unique_ptr<SampledLabels>> workers;
  for (int i = 0; i < pool.threads(); i++) {
    workers.push_back(std::make_unique<SampledLabels>(columns, strata, rowsOf, byTurn));
  }
  SampledAdder adder(columns, strata, rowsOf, sums);
  std::vector<std::vector<SampledRow>> places(kPlaces);
  const std::vector<std::size_t> starts = piecesOf(scored.rows());
  const auto forEachRow = [&](std::int64_t piece, std::int64_t place, const auto& take) {
    const std::size_t first = starts[static_cast<std::size_t>(piece)],
                      end = starts[static_cast<std::size_t>(piece) + 1];
    std::vector<SampledRow>& rows = places[static_cast<std::size_t>(place)];
    if (rows.size() < end - first) rows.resize(end - first);
    for (std::size_t r = first; r < end && !control.cancelled.load(std::memory_order_relaxed); r++) {
      take(scored.rows()[r], rows[r - first]);
    }
  };
  const Outcome outcome = computeInOrder(
      static_cast<std::int64_t>(starts.size()) - 1, kPlaces, pool, control,
      [&](std::int64_t piece, std::int64_t place, int worker) {
        forEachRow(piece, place, [&](const ScoredRow& row, SampledRow& values) {
          workers[static_cast<std::size_t>(worker)]->compute(row, values);
        });
      },
      [&](std::int64_t piece, std::int64_t place) {
        forEachRow(piece, place, [&](const ScoredRow& row, const SampledRow& values) {
          adder.add(row, values);
          control.doneUnits.fetch_add(row.negatives + 1, std::memory_order_relaxed);
        });
      });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  adder.finish();
  return Outcome::Done;
}

// The rows' scores describe how they were sampled: asked of the scored prompts alone.
bool describesSampling(const StepColumns& columns, const SampledSums& sums) {
  const double most = kCalibrationDeviations * std::sqrt(std::max(sums.surpriseVariance, sums.squaredAmongScored));
  return std::fabs(sums.surprise) <= most + roundingOf(columns, sums, kMiSeq) * static_cast<double>(columns.rows);
}

// An interval with room for bias, up to a value that no figure exceeds.
Interval widened(const Interval& interval, double below, double above, double most) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return kUnknownInterval;
  const double high = above > 0 ? std::min(interval.high + above, most) : interval.high;
  return {interval.low - below, high, interval.error};
}

SampledFigure figureOf(const StepColumns& columns, const SampledSums& sums, Figure f, bool calibrated,
                       const Confidence& confidence) {
  const auto rows = static_cast<double>(columns.rows);
  ExactSum sum;
  for (const double value : sums.values[f]) sum.add(value);
  SampledFigure figure{sum.round() / rows, kUnknownInterval, kUnknownInterval, kNaN, kNaN, kNaN};
  if (!std::isfinite(figure.estimate)) return figure;
  figure.drawVariance = sums.drawVariance[f].round() / rows / rows;
  // Too few draws make every figure too high (Jensen).
  const double last = std::fabs(sums.lastCorrection[f].round() / rows), excess = sums.excess[f].round() / rows;
  figure.biasBelow = std::max(last, f == kMiSeqLoo ? std::fabs(excess) : std::max(0.0, excess));
  figure.biasAbove = last;
  const bool isBounded = f == kMiSeq || f == kMiToken;
  const double most = isBounded ? std::max(figure.estimate, columns.logOthers[columns.columns]) : kInfinity;
  figure.batch = widened(batchInterval(columns, sums, f, figure.estimate, calibrated, confidence), figure.biasBelow,
                         figure.biasAbove, most);
  figure.population = widened(populationInterval(columns, sums, f, figure.estimate, calibrated, confidence),
                              figure.biasBelow, figure.biasAbove, most + roundingOf(columns, sums, f));
  return figure;
}

// Of hits. Where all rows of each prompt are alike, rounding leaves a variance: no prompt has a part of that.
Variance hitVariance(const StepColumns& columns, const std::vector<double>& hits) {
  const Variance variance = stratifiedVariance(columns.labels.own, columns.columns, hits, false);
  if (variance.value * static_cast<double>(columns.rows) > kLeastSpread) return variance;
  return {0, stratifiedVariance(columns.labels.own, columns.columns, hits, true).degrees};
}

void inferRetrieval(const ScoredRows& scored, const StepColumns& columns, const Strata& strata,
                    const Confidence& confidence, SampledInference& out) {
  const ColumnsBySignature bySignature(columns.signature.data(), columns.columns);
  const auto rows = static_cast<double>(columns.rows);
  std::int64_t certain[kBestCounts] = {}, possible[kBestCounts] = {};
  std::vector<double> hits[kBestCounts];
  ExactSum sums[kBestCounts];
  for (const ScoredRow& row : scored.rows()) {
    const Standing standing = standingOf(row, strata, bySignature);
    for (int i = 0; i < kBestCounts; i++) {
      certain[i] += standing.ahead + standing.unseen < kBest[i];
      possible[i] += standing.ahead < kBest[i];
      hits[i].push_back(bestOfCandidates(row, strata, kCandidates[i]));
      sums[i].add(hits[i].back());
    }
  }
  for (int i = 0; i < kBestCounts; i++) {
    out.bestAtLeast[i] = static_cast<double>(certain[i]) / rows;
    out.bestAtMost[i] = static_cast<double>(possible[i]) / rows;
    const double share = out.bestOf[i] = sums[i].round() / rows;
    if (std::isnan(share) || columns.rows < 2) continue;
    const Variance variance = hitVariance(columns, hits[i]);
    // A row's value is in [0, 1], so that its variance is at most that of a hit: never fewer draws than rows.
    const double count = effectiveCount(share, variance.value, rows, rows, kInfinity);
    out.bestOfBatch[i] = wilson(share, count, confidence.quantile(variance.degrees), std::sqrt(variance.value));
  }
}

}  // namespace

Outcome inferPairs(const SampledPairs& input, SampledInference& out, ThreadPool& pool, JobControl& control) {
  out = {};
  out.describesSampling = true;
  out.matchedSeq = out.matchedToken = kNaN;
  std::fill(std::begin(out.figures), std::end(out.figures),
            SampledFigure{kNaN, kUnknownInterval, kUnknownInterval, kNaN, kNaN, kNaN});
  std::fill_n(out.bestOf, kBestCounts, kNaN);
  std::fill_n(out.bestOfBatch, kBestCounts, kUnknownInterval);
  control.totalUnits.store(input.pairs, std::memory_order_relaxed);

  const Strata strata(input.columnSignature, input.columnTurn, input.columns);
  const ScoredRows scored(input, strata, out);
  out.used = static_cast<std::int64_t>(scored.rows().size());
  if (out.wrongRow >= 0 || out.used == 0) return Outcome::Done;
  const StepColumns columns({scored.own().data(), scored.lengths().data(), input.columnSignature}, out.used,
                            input.columns);
  SampledSums sums;
  if (sumPairs(scored, columns, strata, sums, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;

  // A posterior over few scored labels is itself noisy: then the spread of what is compared tells more. With few
  // negatives values are not where their expectations over all prompts are, however the rows were sampled.
  const double labels = sums.labelVariance[kMiSeq];
  const bool expected =
      scoresDescribeSampling(columns, sums, out.complete ? labels : std::max(labels, sums.squaredSurprise));
  out.describesSampling = out.complete ? expected : describesSampling(columns, sums);
  const Confidence confidence(input.confidence);
  for (std::size_t i = 0; i < std::size(kSampledFigures); i++) {
    out.figures[i] = figureOf(columns, sums, kSampledFigures[i], out.describesSampling && expected, confidence);
  }
  const auto rows = static_cast<double>(out.used);
  out.matchedSeq = sums.matchedSeq.round() / rows;
  out.matchedToken = sums.matchedToken.round() / rows;
  inferRetrieval(scored, columns, strata, confidence, out);
  control.doneUnits.store(input.pairs, std::memory_order_relaxed);  // those of rows left out are not counted above
  return Outcome::Done;
}

}  // namespace collapsar
