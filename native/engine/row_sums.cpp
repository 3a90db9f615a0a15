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

// One worker's: adds one row, whose LabelValues are at hand, to a block's sums; hands out the figures' own values.
// Columns are gone through in loops without branches, which the compiler turns into vectors; the few columns that need
// more are put right afterwards. Every sum has the terms and the order that the definition gives it.
class RowAdder {
 public:
  RowAdder(const InferenceInput& input, const StepColumns& columns) : input_(input), columns_(columns) {
    const auto size = static_cast<std::size_t>(input.columns);
    for (auto& values : hit_) values.resize(size);
    for (auto* vectors : {&product_, &square_}) {
      for (auto& values : *vectors) values.resize(size);
    }
    for (auto* values : {&others_[0], &others_[1], &valueWithout_, &expectedWithout_}) values->resize(size);
  }

  void add(std::int64_t r, const LabelValues& row, RowSums& sums, double* rowValues) {
#if defined(__x86_64__) && defined(__GNUC__)
    switch (vectorBytes()) {
      case 64:
        return addAvx512(r, row, sums, rowValues);
      case 32:
        return addAvx2(r, row, sums, rowValues);
      default:
        return addBody(r, row, sums, rowValues);
    }
#else
    addBody(r, row, sums, rowValues);
#endif
  }

 private:
#if defined(__x86_64__) && defined(__GNUC__)
  COLLAPSAR_AVX512 void addAvx512(std::int64_t r, const LabelValues& row, RowSums& sums, double* rowValues) {
    addBody(r, row, sums, rowValues);
  }
  COLLAPSAR_AVX2 void addAvx2(std::int64_t r, const LabelValues& row, RowSums& sums, double* rowValues) {
    addBody(r, row, sums, rowValues);
  }
#endif

  inline __attribute__((always_inline)) void addBody(std::int64_t r, const LabelValues& row, RowSums& sums,
                                                     double* rowValues) {
    const std::int64_t columns = input_.columns;
    const std::int32_t own = input_.labels.own[r];
    const double* __restrict const weight = row.weight.data();
    addTo(sums.weight, row.weight);
    for (int hit = 0; hit < kHitFigures; hit++) {
      double* __restrict const values = hit_[hit].data();
      const std::uint8_t* const level = row.level.data();
      for (std::int64_t p = 0; p < columns; p++) values[p] = level[p] <= hit ? 1.0 : 0.0;
    }
    for (int f = 0; f < kFigures; f++) {
      const double* __restrict const values = f < kMiFigures ? row.value[f].data() : hit_[f - kMiFigures].data();
      rowValues[f] = values[own];
      addMoments(weight, values, sums, f);
    }
    sumMoments(sums);
    addWithout(row, own, sums, rowValues);
    for (int hit = 0; hit < kHitFigures; hit++) addHitsWithout(row, own, hit, sums, rowValues);
    sums.scoreScale += row.scoreScale;
    sums.scoreScaleToken += row.scoreScale * row.perLength;
    sums.logColumnsPerToken += columns_.logOthers[columns] * row.perLength;
  }

  inline __attribute__((always_inline)) void addMoments(const double* weight, const double* values, RowSums& sums,
                                                        int f) {
    double* __restrict const products = product_[f].data();
    double* __restrict const squares = square_[f].data();
    double* __restrict const weighted = sums.weighted[f].data();
    double* __restrict const weightedSquares = sums.weightedSquares[f].data();
    for (std::int64_t p = 0; p < input_.columns; p++) {
      const double value = weight[p] == 0 ? 0.0 : values[p];  // without weight it may be infinite
      products[p] = weight[p] * value;
      squares[p] = products[p] * value;
    }
    for (std::int64_t p = 0; p < input_.columns; p++) weighted[p] += products[p];
    for (std::int64_t p = 0; p < input_.columns; p++) weightedSquares[p] += squares[p];
  }

  // Eight sums at a time: in each, an addition waits for the one before it.
  inline __attribute__((always_inline)) void sumMoments(RowSums& sums) {
    double first[kFigures] = {}, second[kFigures] = {};
    for (int f = 0; f < kFigures; f += 4) {
      const double* const p0 = product_[f].data();
      const double* const p1 = product_[f + 1].data();
      const double* const p2 = product_[f + 2].data();
      const double* const p3 = product_[f + 3].data();
      const double* const s0 = square_[f].data();
      const double* const s1 = square_[f + 1].data();
      const double* const s2 = square_[f + 2].data();
      const double* const s3 = square_[f + 3].data();
      double a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
      for (std::int64_t p = 0; p < input_.columns; p++) {
        a0 += p0[p];
        a1 += p1[p];
        a2 += p2[p];
        a3 += p3[p];
        b0 += s0[p];
        b1 += s1[p];
        b2 += s2[p];
        b3 += s3[p];
      }
      first[f] = a0, first[f + 1] = a1, first[f + 2] = a2, first[f + 3] = a3;
      second[f] = b0, second[f + 1] = b1, second[f + 2] = b2, second[f + 3] = b3;
    }
    for (int f = 0; f < kFigures; f++) {
      const double variance = second[f] - first[f] * first[f];
      sums.expected[f] += first[f];
      sums.labelVariance[f] += variance > 0 ? variance : 0.0;
      expected_[f] = first[f];
    }
  }

  // Expectations over the labels other than j, for every j; where no other label is conceivable, the row's own value
  // stands for it.
  inline __attribute__((always_inline)) void expectOthers(const LabelValues& row, int f, double ownValue,
                                                          double* __restrict others) {
    const std::int64_t columns = input_.columns;
    const double* __restrict const weight = row.weight.data();
    const double* __restrict const rest = row.weightRest.data();
    const double* __restrict const products = product_[f].data();
    const double expected = expected_[f];
    for (std::int64_t j = 0; j < columns; j++) others[j] = (expected - products[j]) / rest[j];
    const std::int64_t heavy = row.heavy;
    if (heavy < 0) return;
    double sum = 0;
    for (std::int64_t p = 0; p < columns; p++) {
      if (p != heavy && weight[p] != 0) sum += weight[p] * row.value[f][p];
    }
    others[heavy] = rest[heavy] == 0 ? ownValue : sum / rest[heavy];
  }

  inline __attribute__((always_inline)) void addWithout(const LabelValues& row, std::int32_t own, RowSums& sums,
                                                        const double* rowValues) {
    const double* __restrict const dropSeq = row.dropSeq.data();
    const double* __restrict const dropLoo = row.dropLoo.data();
    const double* __restrict const dropToken = row.dropToken.data();
    const double perLength = row.perLength;
    expectOthers(row, kMiSeq, rowValues[kMiSeq], others_[0].data());
    expectOthers(row, kMiToken, rowValues[kMiToken], others_[1].data());
    const double* __restrict const seq = others_[0].data();
    const double* __restrict const token = others_[1].data();
    const auto add = [&](double* __restrict target, auto valueOf) __attribute__((always_inline)) {
      const double atOwn = target[own];
      for (std::int64_t j = 0; j < input_.columns; j++) target[j] += valueOf(j);
      target[own] = atOwn;  // not left out with its own prompt
    };
    const double valueSeq = rowValues[kMiSeq], valueLoo = rowValues[kMiSeqLoo];
    const double valuePerToken = rowValues[kMiPerToken], valueToken = rowValues[kMiToken];
    add(sums.without[kMiSeq].data(), [=](std::int64_t j) { return valueSeq + dropSeq[j]; });
    add(sums.without[kMiSeqLoo].data(), [=](std::int64_t j) { return valueLoo + dropLoo[j]; });
    add(sums.without[kMiPerToken].data(), [=](std::int64_t j) { return valuePerToken + dropSeq[j] * perLength; });
    add(sums.without[kMiToken].data(), [=](std::int64_t j) { return valueToken + dropToken[j]; });
    add(sums.expectedWithout[kMiSeq].data(), [=](std::int64_t j) { return seq[j] + dropSeq[j]; });
    add(sums.expectedWithout[kMiPerToken].data(), [=](std::int64_t j) { return (seq[j] + dropSeq[j]) * perLength; });
    add(sums.expectedWithout[kMiToken].data(), [=](std::int64_t j) { return token[j] + dropToken[j]; });
  }

  inline __attribute__((always_inline)) void addHitsWithout(const LabelValues& row, std::int32_t own, int hit,
                                                            RowSums& sums, const double* rowValues) {
    const int f = kRetrieval1 + hit;
    const std::int64_t columns = input_.columns;
    const double expected = expected_[f], ownValue = rowValues[f];
    const double* __restrict const products = product_[f].data();
    const double* __restrict const rest = row.weightRest.data();
    double* __restrict const values = valueWithout_.data();
    double* __restrict const expectations = expectedWithout_.data();
    for (std::int64_t j = 0; j < columns; j++) values[j] = ownValue;
    for (std::int64_t j = 0; j < columns; j++) expectations[j] = (expected - products[j]) / rest[j];
    if (row.heavy >= 0 && rest[row.heavy] == 0) expectations[row.heavy] = ownValue;
    // Without one of the row's best columns another moves up.
    for (int i = 0; i < row.topCount; i++) {
      const auto [j, position] = row.top[i];
      if (position >= 1 << hit || j == own) continue;
      double value = 0;
      const double sum = columns_.distinct == columns ? hitWithout(row, own, j, hit, value)
                                                      : sharedHitWithout(row, own, j, hit, value);
      values[j] = value;
      expectations[j] = rest[j] == 0 ? value : sum / rest[j];
    }
    double* __restrict const without = sums.without[f].data();
    double* __restrict const expectedWithout = sums.expectedWithout[f].data();
    values[own] = expectations[own] = 0.0;  // the row is left out with its own prompt
    for (std::int64_t j = 0; j < columns; j++) without[j] += values[j];
    for (std::int64_t j = 0; j < columns; j++) expectedWithout[j] += expectations[j];
  }

  // The weight of the top 1 << hit without j, which is one of them; `value` becomes 1 if the own column is there.
  static double hitWithout(const LabelValues& row, std::int32_t own, std::int32_t j, int hit, double& value) {
    double sum = 0;
    for (int i = 0; i < row.topCount; i++) {
      const auto [p, position] = row.top[i];
      if (p == j || position > 1 << hit) continue;
      sum += row.weight[p];
      if (p == own) value = 1;
    }
    return sum;
  }

  // The same where columns share signatures: all that are equivalent to one of the top are hits.
  double sharedHitWithout(const LabelValues& row, std::int32_t own, std::int32_t j, int hit, double& value) const {
    std::int32_t top[kMaxTopK];
    const int count = row.topWithout(j, hit, top);
    double sum = 0;
    for (std::int64_t p = 0; p < input_.columns; p++) {
      if (p == j || (row.weight[p] == 0 && p != own)) continue;
      bool inTop = false;
      for (int i = 0; i < count; i++) inTop = inTop || columns_.signature[top[i]] == columns_.signature[p];
      if (!inTop) continue;
      sum += row.weight[p];
      if (p == own) value = 1;
    }
    return sum;
  }

  const InferenceInput& input_;
  const StepColumns& columns_;
  double expected_[kFigures] = {};
  std::vector<double> hit_[kHitFigures];                      // [columns]: 1 where the column is a hit
  std::vector<double> product_[kFigures], square_[kFigures];  // weight value, weight value^2
  std::vector<double> others_[2], valueWithout_, expectedWithout_;
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
  std::vector<std::unique_ptr<RowAdder>> adders;
  for (int worker = 0; worker < pool.threads(); worker++) {
    scratch.push_back(std::make_unique<LabelValues>(input, columns));
    adders.push_back(std::make_unique<RowAdder>(input, columns));
  }

  const Outcome outcome = pool.run(blocks, control, [&](std::int64_t block, int worker) {
    LabelValues& row = *scratch[worker];
    RowSums& part = parts[block];
    RowAdder& adder = *adders[worker];
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
