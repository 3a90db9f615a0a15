// One pass over the rows, in blocks; each block has sums of its own.
#include "row_sums.h"

#include <algorithm>
#include <memory>

#include "deterministic_math.h"

namespace collapsar {

namespace {

constexpr std::int64_t kMaxBlocks = 64;     // bounds the memory of partial sums
constexpr std::int64_t kMinBlockRows = 16;  // amortises their merging

void allocate(RowSums& sums, std::int64_t columns) {
  const auto size = static_cast<std::size_t>(columns);
  sums.weight.assign(size, 0);
  for (int f = 0; f < kFigures; f++) {
    for (auto* vector : {&sums.weighted[f], &sums.weightedSquares[f], &sums.without[f], &sums.expectedWithout[f]}) {
      vector->assign(size, 0);
    }
  }
}

void addTo(std::vector<double>& total, const std::vector<double>& part) {
  for (std::size_t i = 0; i < total.size(); i++) total[i] += part[i];
}

// Adds one row, whose LabelValues are at hand, to a block's sums; hands the figures' own values to `rowValues`.
class RowAdder {
 public:
  RowAdder(const InferenceInput& input, const StepColumns& columns) : input_(input), columns_(columns) {}

  void add(std::int64_t r, const LabelValues& row, RowSums& sums, double* rowValues) {
    const std::int64_t columns = input_.columns;
    const std::int32_t own = input_.labels.own[r];
    for (std::int64_t p = 0; p < columns; p++) sums.weight[p] += row.weight[p];
    for (int f = 0; f < kMiFigures; f++) {
      rowValues[f] = row.value[f][own];
      expected_[f] = addMoments(row.weight, sums, f, [&](std::int64_t p) { return row.value[f][p]; });
    }
    for (int hit = 0; hit < kHitFigures; hit++) {
      const int f = kRetrieval1 + hit;
      rowValues[f] = row.level[own] <= hit ? 1.0 : 0.0;
      expected_[f] = addMoments(row.weight, sums, f, [&](std::int64_t p) { return row.level[p] <= hit ? 1.0 : 0.0; });
    }
    for (std::int64_t j = 0; j < columns; j++) {
      if (j == own) continue;
      addWithout(row, j, sums, rowValues);
      for (int hit = 0; hit < kHitFigures; hit++) addHitWithout(row, own, j, hit, sums, rowValues);
    }
    sums.scoreScale += row.scoreScale;
    sums.scoreScaleToken += row.scoreScale * row.perLength;
    sums.logColumnsPerToken += columns_.logOthers[columns] * row.perLength;
  }

 private:
  template <class ValueOf>
  double addMoments(const std::vector<double>& weight, RowSums& sums, int f, ValueOf valueOf) {
    double first = 0, second = 0;
    double* weighted = sums.weighted[f].data();
    double* squares = sums.weightedSquares[f].data();
    for (std::int64_t p = 0; p < input_.columns; p++) {
      if (weight[p] == 0) continue;  // its value may be infinite
      const double value = valueOf(p), product = weight[p] * value;
      weighted[p] += product;
      squares[p] += product * value;
      first += product;
      second += product * value;
    }
    const double variance = second - first * first;
    sums.expected[f] += first;
    sums.labelVariance[f] += variance > 0 ? variance : 0.0;
    return first;
  }

  // Expectation over the labels other than j.
  double expectedOthers(const LabelValues& row, std::int64_t j, int f) const {
    if (row.weight[j] == 0) return expected_[f];
    if (row.weight[j] <= 0.5) return (expected_[f] - row.weight[j] * row.value[f][j]) / row.weightRest[j];
    double sum = 0;
    for (std::int64_t p = 0; p < input_.columns; p++) {
      if (p != j && row.weight[p] != 0) sum += row.weight[p] * row.value[f][p];
    }
    return sum / row.weightRest[j];
  }

  void addWithout(const LabelValues& row, std::int64_t j, RowSums& sums, const double* rowValues) {
    const double drop[kMiFigures] = {row.dropSeq[j], row.dropLoo[j], row.dropSeq[j] * row.perLength, row.dropToken[j]};
    for (int f = 0; f < kMiFigures; f++) sums.without[f][j] += rowValues[f] + drop[f];
    // No other label is conceivable: the row's own value stands for the expectation.
    const bool known = row.weightRest[j] > 0;
    const double seq = known ? expectedOthers(row, j, kMiSeq) : rowValues[kMiSeq];
    const double token = known ? expectedOthers(row, j, kMiToken) : rowValues[kMiToken];
    sums.expectedWithout[kMiSeq][j] += seq + row.dropSeq[j];
    sums.expectedWithout[kMiPerToken][j] += (seq + row.dropSeq[j]) * row.perLength;
    sums.expectedWithout[kMiToken][j] += token + row.dropToken[j];
  }

  void addHitWithout(const LabelValues& row, std::int32_t own, std::int64_t j, int hit, RowSums& sums,
                     const double* rowValues) {
    const int f = kRetrieval1 + hit;
    std::int32_t top[kMaxTopK];
    const int count = row.topWithout(j, hit, top);
    double value, expected;
    if (count < 0) {
      value = rowValues[f];
      expected = expected_[f] - (row.level[j] <= hit ? row.weight[j] : 0.0);
    } else {
      value = 0;
      expected = 0;
      for (std::int64_t p = 0; p < input_.columns; p++) {
        if (p == j || (row.weight[p] == 0 && p != own)) continue;
        bool inTop = false;
        for (int i = 0; i < count; i++) inTop = inTop || columns_.signature[top[i]] == columns_.signature[p];
        if (!inTop) continue;
        expected += row.weight[p];
        if (p == own) value = 1;
      }
    }
    sums.without[f][j] += value;
    sums.expectedWithout[f][j] += row.weightRest[j] > 0 ? expected / row.weightRest[j] : value;
  }

  const InferenceInput& input_;
  const StepColumns& columns_;
  double expected_[kFigures] = {};
};

}  // namespace

Outcome sumRows(const InferenceInput& input, const StepColumns& columns, RowSums& out, ThreadPool& pool,
                JobControl& control) {
  allocate(out, input.columns);
  for (auto& values : out.values) values.resize(static_cast<std::size_t>(input.rows));
  if (input.permutations > 0) {
    out.looValues.resize(static_cast<std::size_t>(input.rows * input.columns));
    out.levels.resize(static_cast<std::size_t>(input.rows * input.columns));
  }
  const std::int64_t even = (input.rows + kMaxBlocks - 1) / kMaxBlocks;
  const std::int64_t blockRows = even > kMinBlockRows ? even : kMinBlockRows;
  const std::int64_t blocks = (input.rows + blockRows - 1) / blockRows;
  std::vector<RowSums> parts(static_cast<std::size_t>(blocks));
  // All memory before the threads start: one that throws has nowhere to report it.
  for (RowSums& part : parts) allocate(part, input.columns);
  std::vector<std::unique_ptr<LabelValues>> scratch;
  for (int worker = 0; worker < pool.threads(); worker++) {
    scratch.push_back(std::make_unique<LabelValues>(input, columns));
  }

  const Outcome outcome = pool.run(blocks, control, [&](std::int64_t block, int worker) {
    LabelValues& row = *scratch[worker];
    RowSums& part = parts[block];
    RowAdder adder(input, columns);
    const std::int64_t end = std::min(input.rows, (block + 1) * blockRows);
    for (std::int64_t r = block * blockRows; r < end; r++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      row.compute(r);
      double rowValues[kFigures];
      adder.add(r, row, part, rowValues);
      for (int f = 0; f < kFigures; f++) out.values[f][r] = rowValues[f];
      if (input.permutations > 0) {
        std::copy(row.value[kMiSeqLoo].begin(), row.value[kMiSeqLoo].end(), out.looValues.begin() + r * input.columns);
        std::copy(row.level.begin(), row.level.end(), out.levels.begin() + r * input.columns);
      }
    }
    control.doneUnits.fetch_add((end - block * blockRows) * input.columns, std::memory_order_relaxed);
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;

  for (const RowSums& part : parts) {
    addTo(out.weight, part.weight);
    for (int f = 0; f < kFigures; f++) {
      addTo(out.weighted[f], part.weighted[f]);
      addTo(out.weightedSquares[f], part.weightedSquares[f]);
      addTo(out.without[f], part.without[f]);
      addTo(out.expectedWithout[f], part.expectedWithout[f]);
      out.labelVariance[f] += part.labelVariance[f];
      out.expected[f] += part.expected[f];
    }
    out.scoreScale += part.scoreScale;
    out.scoreScaleToken += part.scoreScaleToken;
    out.logColumnsPerToken += part.logColumnsPerToken;
  }
  return Outcome::Done;
}

}  // namespace collapsar
