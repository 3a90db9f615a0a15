// One pass over the rows, prompt by prompt: a block of prompts writes its rows of the matrices, and has sums over
// columns of its own, from which the intervals are made when all are through.
#include "prompt_matrices.h"

#include <algorithm>
#include <cmath>

#include "engine/exact_sum.h"
#include "engine/half.h"
#include "engine/simd/kernel_table.h"
#include "engine/special_values.h"
#include "intervals.h"
#include "student_t.h"

namespace collapsar {

namespace {

constexpr std::int64_t kMostPromptBlocks = 64;  // bounds the memory of partial sums
// As of the figures per token (variances.cpp).
constexpr double kMostOfMean = 0.5;
constexpr double kFewestDegrees = 2;

// Over rows, by label: the posterior w, w v, w v^2, and the same of w^2, with v = S - marginal.
struct LabelSums {
  std::vector<double> weight, value, square;
  std::vector<double> weight2, value2, square2;
  double expected = 0, variance = 0, scoreScale = 0;

  explicit LabelSums(std::int64_t columns) {
    for (auto* sums : all()) sums->assign(static_cast<std::size_t>(columns), 0.0);
  }
  std::vector<std::vector<double>*> all() { return {&weight, &value, &square, &weight2, &value2, &square2}; }

  void add(LabelSums& part) {
    const auto ours = all(), theirs = part.all();
    for (std::size_t i = 0; i < ours.size(); i++) {
      for (std::size_t p = 0; p < weight.size(); p++) (*ours[i])[p] += (*theirs[i])[p];
    }
    expected += part.expected;
    variance += part.variance;
    scoreScale += part.scoreScale;
  }
};

// The rows of each prompt one after the other: [first[p], first[p + 1]) of `row`.
struct RowsByPrompt {
  std::vector<std::int64_t> first, row;

  explicit RowsByPrompt(const StepColumns& columns) : first(columns.rowsOf.size() + 1, 0) {
    for (std::size_t p = 0; p < columns.rowsOf.size(); p++) first[p + 1] = first[p] + columns.rowsOf[p];
    std::vector<std::int64_t> next(first);
    row.resize(static_cast<std::size_t>(columns.rows));
    for (std::int64_t r = 0; r < columns.rows; r++) row[next[columns.labels.own[r]]++] = r;
  }
};

// One worker's scratch: [columns], as long as whole vectors.
struct LabelScratch {
  std::vector<double> weight, value, posterior, nats;

  explicit LabelScratch(std::int64_t columns) {
    const auto padded = static_cast<std::size_t>((columns + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles);
    for (auto* vector : {&weight, &value, &posterior, &nats}) vector->resize(padded);
  }
};

class PromptPass {
 public:
  PromptPass(const PromptMatrixInput& input, const StepColumns& columns, PromptMatrices& out)
      : input_(input), columns_(columns), kernels_(kernels()), out_(out) {}

  // One row's posterior and values, added to the sums by label and to those of its prompt.
  void addRow(std::int64_t r, LabelScratch& scratch, LabelSums& sums) const {
    const std::int64_t columns = input_.columns;
    const double* const scores = input_.scores + r * columns;
    const double* const rowCounts = columns_.rowCounts.data();
    const double marginal = input_.stats->marginalSeq[r];
    double* __restrict const weight = scratch.weight.data();
    double* __restrict const value = scratch.value.data();
    double top = -kInfinity, scale = columns_.logOthers[columns];
    for (std::int64_t p = 0; p < columns; p++) {
      top = rowCounts[p] > 0 && scores[p] > top ? scores[p] : top;
      const double size = std::fabs(scores[p]);
      scale = size > scale && size < kInfinity ? size : scale;
    }
    for (std::int64_t p = 0; p < columns; p++) weight[p] = rowCounts[p] > 0 ? scores[p] - top : -kInfinity;
    kernels_.exponentials(weight, columns, weight);
    double total = 0;
    for (std::int64_t p = 0; p < columns; p++) {
      weight[p] *= rowCounts[p];
      total += weight[p];
    }
    double* __restrict const posterior = scratch.posterior.data();
    double* __restrict const nats = scratch.nats.data();
    for (std::int64_t p = 0; p < columns; p++) {
      weight[p] /= total;
      const double excess = scores[p] - marginal;
      posterior[p] += weight[p];
      nats[p] += excess;
      value[p] = weight[p] == 0 ? 0.0 : excess;  // without weight it may be infinite
    }
    double expected = 0, second = 0;
    for (std::int64_t p = 0; p < columns; p++) {
      const double product = weight[p] * value[p], square = product * value[p];
      sums.weight[p] += weight[p];
      sums.value[p] += product;
      sums.square[p] += square;
      sums.weight2[p] += weight[p] * weight[p];
      sums.value2[p] += weight[p] * product;
      sums.square2[p] += weight[p] * square;
      expected += product;
      second += square;
    }
    sums.expected += expected;
    sums.variance += std::max(0.0, second - expected * expected);
    sums.scoreScale += scale;
  }

  // What the rows of one prompt say, once all of them are in `scratch`, which is empty again afterwards.
  void endPrompt(std::int64_t prompt, const std::int64_t* rows, std::int64_t count, LabelScratch& scratch) const {
    const RowStats& stats = *input_.stats;
    ExactSum excess;
    std::int64_t hits = 0;
    for (std::int64_t i = 0; i < count; i++) {
      excess.add(stats.matchedSeq[rows[i]] - stats.marginalSeq[rows[i]]);
      hits += stats.hitRank[rows[i]] < 1;
    }
    const auto divisor = static_cast<double>(count);
    out_.mi[prompt] = excess.round() / divisor;
    out_.retrieval[prompt] = static_cast<double>(hits) / divisor;
    if (input_.matrices) {
      std::uint8_t* const posterior = out_.posterior.data() + prompt * input_.columns;
      std::uint16_t* const nats = out_.nats.data() + prompt * input_.columns;
      for (std::int64_t p = 0; p < input_.columns; p++) {
        posterior[p] = static_cast<std::uint8_t>(std::min(255.0, scratch.posterior[p] / divisor * 255.0 + 0.5));
        nats[p] = float16Of(scratch.nats[p] / divisor);
      }
    }
    std::fill(scratch.posterior.begin(), scratch.posterior.end(), 0.0);
    std::fill(scratch.nats.begin(), scratch.nats.end(), 0.0);
  }

 private:
  const PromptMatrixInput& input_;
  const StepColumns& columns_;
  const KernelTable& kernels_;
  PromptMatrices& out_;
};

// The spread of one prompt's own values about their mean, as a variance of that mean.
Variance ownVariance(const RowStats& stats, const std::int64_t* rows, std::int64_t count, double mean) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; i++) {
    const double off = stats.matchedSeq[rows[i]] - stats.marginalSeq[rows[i]] - mean;
    squares += off * off;
  }
  const auto n = static_cast<double>(count);
  return {squares / (n - 1) / n, n - 1};
}

// The variance of the mean of `count` values drawn from prompt p, from all rows by how likely each is one of p's.
Variance labelVariance(const LabelSums& sums, std::size_t p, std::int64_t count, std::int64_t rows) {
  const double weight = sums.weight[p], most = static_cast<double>(rows - 1);
  if (!(weight > 0)) return {0, most};
  const double mean = sums.value[p] / weight;
  const double spread = sums.square[p] - mean * sums.value[p];
  if (!(spread > 0)) return {0, most};
  // Few rows lie nearer to their own mean than to the true one.
  const double own = sums.square2[p] - 2 * mean * sums.value2[p] + mean * mean * sums.weight2[p];
  const double leverage = std::min(kMostOfMean, std::max(0.0, own / weight / spread));
  const double degrees = std::min(most, std::max(kFewestDegrees, 1 / leverage - 1));
  return {spread / weight / (1 - leverage) / static_cast<double>(count), degrees};
}

}  // namespace

Outcome promptMatrices(const PromptMatrixInput& input, PromptMatrices& out, ThreadPool& pool, JobControl& control) {
  const auto size = static_cast<std::size_t>(input.columns);
  for (auto* values : {&out.mi, &out.low, &out.high, &out.retrieval}) values->assign(size, kNaN);
  out.posterior.assign(input.matrices ? size * size : 0, 0);
  out.nats.assign(out.posterior.size(), float16Of(kNaN));
  out.rows.assign(size, 0);
  control.totalUnits.store(input.rows * input.columns, std::memory_order_relaxed);
  if (input.rows < 1 || input.columns < 1) return Outcome::Done;

  const StepColumns columns(input.labels, input.rows, input.columns);
  out.rows = columns.rowsOf;
  const RowsByPrompt byPrompt(columns);
  const PromptPass pass(input, columns, out);
  const std::int64_t blocks = std::min(input.columns, kMostPromptBlocks);
  // All memory before the threads start: one that throws has nowhere to report it.
  std::vector<LabelSums> parts(static_cast<std::size_t>(blocks), LabelSums(input.columns));
  std::vector<LabelScratch> scratch(static_cast<std::size_t>(pool.threads()), LabelScratch(input.columns));
  const Outcome outcome = pool.run(blocks, control, [&](std::int64_t block, int worker) {
    for (std::int64_t p = block * input.columns / blocks; p < (block + 1) * input.columns / blocks; p++) {
      const std::int64_t* const rows = byPrompt.row.data() + byPrompt.first[p];
      const std::int64_t count = columns.rowsOf[p];
      if (count == 0) continue;
      for (std::int64_t i = 0; i < count; i++) {
        if (control.cancelled.load(std::memory_order_relaxed)) return;
        pass.addRow(rows[i], scratch[worker], parts[block]);
      }
      pass.endPrompt(p, rows, count, scratch[worker]);
      control.doneUnits.fetch_add(count * input.columns, std::memory_order_relaxed);
    }
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  if (input.columns < 2 || input.rows < 2) return Outcome::Done;

  LabelSums sums(input.columns);
  for (LabelSums& part : parts) sums.add(part);
  StepSums step;
  step.expected[kMiSeq] = sums.expected;
  step.scoreScale = sums.scoreScale;
  for (std::int64_t r = 0; r < input.rows; r++) {
    step.values[kMiSeq].push_back(input.stats->matchedSeq[r] - input.stats->marginalSeq[r]);
  }
  const bool calibrated = scoresDescribeSampling(columns, step, sums.variance);
  const double rounding = roundingOf(columns, step, kMiSeq), most = columns.logOthers[size];
  for (std::size_t p = 0; p < size; p++) {
    // One row shows nothing of its prompt's spread.
    if (out.rows[p] < 2) continue;
    Variance variance = labelVariance(sums, p, out.rows[p], input.rows);
    if (!calibrated) {
      const std::int64_t* const rows = byPrompt.row.data() + byPrompt.first[p];
      const Variance own = ownVariance(*input.stats, rows, out.rows[p], out.mi[p]);
      variance = {std::max(own.value, variance.value), own.degrees};
    }
    const double half = studentT975(variance.degrees) * std::sqrt(variance.value) + rounding;
    out.low[p] = out.mi[p] - half;
    out.high[p] = std::min(out.mi[p] + half, std::max(out.mi[p], most));
  }
  return Outcome::Done;
}

}  // namespace collapsar
