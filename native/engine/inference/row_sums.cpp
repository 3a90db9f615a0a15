// One pass over the rows, in blocks; each block has sums of its own.
#include "row_sums.h"

#include <algorithm>
#include <memory>

#include "engine/deterministic_math.h"

namespace collapsar {

namespace {

constexpr std::int64_t kMaxBlocks = 64;     // bounds the memory of partial sums
constexpr std::int64_t kMinBlockRows = 16;  // amortises their merging
constexpr int kTopLanes = 16;               // whole vectors that hold a row's best columns
static_assert(kTopLanes > kMaxTopK);

void allocate(RowSums& sums, std::int64_t columns) {
  const auto size = static_cast<std::size_t>(columns);
  sums.weight.assign(size, 0);
  sums.squaredWeight.assign(size, 0);
  for (int f = 0; f < kFigures; f++) {
    for (auto* vector : {&sums.weighted[f], &sums.weightedSquares[f], &sums.without[f], &sums.expectedWithout[f]}) {
      vector->assign(size, 0);
    }
    if (!variesByLength(f)) continue;
    for (auto* vector : {&sums.squareWeighted[f], &sums.squareWeightedSquares[f]}) vector->assign(size, 0);
  }
}

void addTo(std::vector<double>& total, const std::vector<double>& part) {
  for (std::size_t i = 0; i < total.size(); i++) total[i] += part[i];
}

// One worker's: adds one row, whose LabelValues are at hand, to a block's sums. Loops over columns have no branches, so
// that they become vectors; the few columns that need more are corrected afterwards. Every sum has the terms and the
// order of its definition.
class RowAdder {
 public:
  RowAdder(const InferenceInput& input, const StepColumns& columns) : input_(input), columns_(columns) {
    const auto size = static_cast<std::size_t>(input.columns);
    for (auto& values : product_) values.resize(size);
    for (auto& values : square_) values.resize(size);
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
    const std::int32_t own = input_.labels.own[r];
    addHitMoments(row, sums);
    for (int hit = 0; hit < kHitFigures; hit++) rowValues[kRetrieval1 + hit] = row.level[own] <= hit ? 1.0 : 0.0;
    for (int f = 0; f < kMiFigures; f++) {
      addMoments(row, sums, f);
      rowValues[f] = row.value[f][own];
    }
    sumMoments(sums);
    addWithout(row, own, sums, rowValues);
    for (int hit = 0; hit < kHitFigures; hit++) addHitsWithout(row, own, hit, sums, rowValues);
    sums.scoreScale += row.scoreScale;
    sums.scoreScaleToken += row.scoreScale * row.perLength;
  }

  // A hit is its own square.
  inline __attribute__((always_inline)) void addHitMoments(const LabelValues& row, RowSums& sums) {
    static_assert(kHitFigures == 4);
    const double* __restrict const weight = row.weight.data();
    const std::uint8_t* __restrict const level = row.level.data();
    double* __restrict const weights = sums.weight.data();
    double* __restrict const squaredWeights = sums.squaredWeight.data();
    double* __restrict const p0 = product_[kRetrieval1].data();
    double* __restrict const p1 = product_[kRetrieval2].data();
    double* __restrict const p2 = product_[kRetrieval4].data();
    double* __restrict const p3 = product_[kRetrieval8].data();
    double* __restrict const w0 = sums.weighted[kRetrieval1].data();
    double* __restrict const w1 = sums.weighted[kRetrieval2].data();
    double* __restrict const w2 = sums.weighted[kRetrieval4].data();
    double* __restrict const w3 = sums.weighted[kRetrieval8].data();
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t p = 0; p < input_.columns; p++) {
      const double own = weight[p];
      const double h0 = own * (level[p] <= 0 ? 1.0 : 0.0), h1 = own * (level[p] <= 1 ? 1.0 : 0.0);
      const double h2 = own * (level[p] <= 2 ? 1.0 : 0.0), h3 = own * (level[p] <= 3 ? 1.0 : 0.0);
      weights[p] += own;
      squaredWeights[p] += own * own;
      p0[p] = h0, p1[p] = h1, p2[p] = h2, p3[p] = h3;
      w0[p] += h0;
      w1[p] += h1;
      w2[p] += h2;
      w3[p] += h3;
    }
  }

  inline __attribute__((always_inline)) void addMoments(const LabelValues& row, RowSums& sums, int f) {
    const double* __restrict const weight = row.weight.data();
    const double* __restrict const values = row.value[f].data();
    double* __restrict const products = product_[f].data();
    double* __restrict const squares = square_[f].data();
    double* __restrict const weighted = sums.weighted[f].data();
    double* __restrict const weightedSquares = sums.weightedSquares[f].data();
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t p = 0; p < input_.columns; p++) {
      const double value = weight[p] == 0 ? 0.0 : values[p];  // without weight it may be infinite
      products[p] = weight[p] * value;
      squares[p] = products[p] * value;
      weighted[p] += products[p];
      weightedSquares[p] += squares[p];
    }
    if (!variesByLength(f)) return;
    double* __restrict const squareWeighted = sums.squareWeighted[f].data();
    double* __restrict const squareWeightedSquares = sums.squareWeightedSquares[f].data();
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t p = 0; p < input_.columns; p++) {
      squareWeighted[p] += weight[p] * products[p];
      squareWeightedSquares[p] += weight[p] * squares[p];
    }
  }

  // Several sums at a time: in each, an addition waits for the one before it.
  inline __attribute__((always_inline)) void sumMoments(RowSums& sums) {
    static_assert(kMiFigures == 4);
    double second[kFigures] = {};
    for (int f = 0; f < kFigures; f += 4) {
      const double* const p0 = product_[f].data();
      const double* const p1 = product_[f + 1].data();
      const double* const p2 = product_[f + 2].data();
      const double* const p3 = product_[f + 3].data();
      double a0 = 0, a1 = 0, a2 = 0, a3 = 0;
      if (f >= kMiFigures) {
        for (std::int64_t p = 0; p < input_.columns; p++) {
          a0 += p0[p];
          a1 += p1[p];
          a2 += p2[p];
          a3 += p3[p];
        }
        second[f] = a0, second[f + 1] = a1, second[f + 2] = a2, second[f + 3] = a3;
      } else {
        const double* const s0 = square_[f].data();
        const double* const s1 = square_[f + 1].data();
        const double* const s2 = square_[f + 2].data();
        const double* const s3 = square_[f + 3].data();
        double b0 = 0, b1 = 0, b2 = 0, b3 = 0;
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
        second[f] = b0, second[f + 1] = b1, second[f + 2] = b2, second[f + 3] = b3;
      }
      expected_[f] = a0, expected_[f + 1] = a1, expected_[f + 2] = a2, expected_[f + 3] = a3;
    }
    for (int f = 0; f < kFigures; f++) {
      const double variance = second[f] - expected_[f] * expected_[f];
      sums.expected[f] += expected_[f];
      sums.labelVariance[f] += variance > 0 ? variance : 0.0;
    }
  }

  // A column of sums that gets another addend than the loop over all columns gives it.
  struct Column {
    double* at;
    double before;
    explicit Column(double* place) : at(place), before(*place) {}
    void add(double value) const { *at = before + value; }
    void leave() const { *at = before; }
  };

  // Expectations over the labels other than j, for every j; the row's own value where there is no other.
  inline __attribute__((always_inline)) void addWithout(const LabelValues& row, std::int32_t own, RowSums& sums,
                                                        const double* rowValues) {
    const std::int64_t columns = input_.columns, heavy = row.heavy;
    const double* __restrict const rest = row.weightRest.data();
    const double* __restrict const dropSeq = row.dropSeq.data();
    const double* __restrict const dropLoo = row.dropLoo.data();
    const double* __restrict const dropToken = row.dropToken.data();
    const double* __restrict const productsSeq = product_[kMiSeq].data();
    const double* __restrict const productsToken = product_[kMiToken].data();
    double* __restrict const withoutSeq = sums.without[kMiSeq].data();
    double* __restrict const withoutLoo = sums.without[kMiSeqLoo].data();
    double* __restrict const withoutPerToken = sums.without[kMiPerToken].data();
    double* __restrict const withoutToken = sums.without[kMiToken].data();
    double* __restrict const expectedSeq = sums.expectedWithout[kMiSeq].data();
    double* __restrict const expectedPerToken = sums.expectedWithout[kMiPerToken].data();
    double* __restrict const expectedToken = sums.expectedWithout[kMiToken].data();
    const double perLength = row.perLength, allSeq = expected_[kMiSeq], allToken = expected_[kMiToken];
    const double valueSeq = rowValues[kMiSeq], valueLoo = rowValues[kMiSeqLoo];
    const double valuePerToken = rowValues[kMiPerToken], valueToken = rowValues[kMiToken];

    const Column ownColumns[] = {Column(withoutSeq + own),   Column(withoutLoo + own),  Column(withoutPerToken + own),
                                 Column(withoutToken + own), Column(expectedSeq + own), Column(expectedPerToken + own),
                                 Column(expectedToken + own)};
    const std::int64_t known = heavy < 0 ? 0 : heavy;
    const Column heavySeq(expectedSeq + known), heavyPerToken(expectedPerToken + known),
        heavyToken(expectedToken + known);
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < columns; j++) {
      const double others = (allSeq - productsSeq[j]) / rest[j];
      withoutSeq[j] += valueSeq + dropSeq[j];
      withoutPerToken[j] += valuePerToken + dropSeq[j] * perLength;
      expectedSeq[j] += others + dropSeq[j];
      expectedPerToken[j] += (others + dropSeq[j]) * perLength;
    }
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < columns; j++) {
      const double others = (allToken - productsToken[j]) / rest[j];
      withoutToken[j] += valueToken + dropToken[j];
      expectedToken[j] += others + dropToken[j];
    }
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < columns; j++) withoutLoo[j] += valueLoo + dropLoo[j];
    if (heavy >= 0) {
      double seq = valueSeq, token = valueToken;
      if (rest[heavy] != 0) {
        double sumSeq = 0, sumToken = 0;
        for (std::int64_t p = 0; p < columns; p++) {
          sumSeq += p == heavy ? 0.0 : productsSeq[p];
          sumToken += p == heavy ? 0.0 : productsToken[p];
        }
        seq = sumSeq / rest[heavy];
        token = sumToken / rest[heavy];
      }
      heavySeq.add(seq + dropSeq[heavy]);
      heavyPerToken.add((seq + dropSeq[heavy]) * perLength);
      heavyToken.add(token + dropToken[heavy]);
    }
    for (const Column& column : ownColumns) column.leave();  // not left out with its own prompt
  }

  inline __attribute__((always_inline)) void addHitsWithout(const LabelValues& row, std::int32_t own, int hit,
                                                            RowSums& sums, const double* rowValues) {
    const int f = kRetrieval1 + hit;
    const std::int64_t heavy = row.heavy;
    const double expected = expected_[f], ownValue = rowValues[f];
    const double* __restrict const products = product_[f].data();
    const double* __restrict const rest = row.weightRest.data();
    double* __restrict const without = sums.without[f].data();
    double* __restrict const expectedWithout = sums.expectedWithout[f].data();
    double before[kTopLanes], expectedBefore[kTopLanes];
    for (int i = 0; i < row.topCount; i++) {
      before[i] = without[row.top[i].column];
      expectedBefore[i] = expectedWithout[row.top[i].column];
    }
    const Column ownColumns[] = {Column(without + own), Column(expectedWithout + own)};
    const Column heavyColumn(expectedWithout + (heavy < 0 ? 0 : heavy));
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < input_.columns; j++) {
      without[j] += ownValue;
      expectedWithout[j] += (expected - products[j]) / rest[j];
    }
    if (heavy >= 0 && rest[heavy] == 0) heavyColumn.add(ownValue);
    // Without one of the row's best columns another moves up.
    double hits[kTopLanes];
    double hitValue = 0;
    if (columns_.distinct == input_.columns) hitValue = hitsWithout(row, own, hit, hits);
    for (int i = 0; i < row.topCount; i++) {
      const auto [j, position] = row.top[i];
      if (position >= 1 << hit || j == own) continue;
      double value = hitValue;
      const double sum = columns_.distinct == input_.columns ? hits[i] : sharedHitWithout(row, own, j, hit, value);
      without[j] = before[i] + value;
      expectedWithout[j] = expectedBefore[i] + (rest[j] == 0 ? value : sum / rest[j]);
    }
    for (const Column& column : ownColumns) column.leave();
  }

  // For each of the row's best columns, in order: the weight of the top 1 << hit without it, if it is among them.
  // Returns 1 if the own column is there. Without branches: adding 0 changes no sum.
  static inline __attribute__((always_inline)) double hitsWithout(const LabelValues& row, std::int32_t own, int hit,
                                                                  double* __restrict sums) {
    double value = 0;
    for (int lane = 0; lane < kTopLanes; lane++) sums[lane] = 0;
    for (int i = 0; i < row.topCount; i++) {
      const auto [p, position] = row.top[i];
      if (position > 1 << hit) continue;
      const double weight = row.weight[p];
      for (int lane = 0; lane < kTopLanes; lane++) sums[lane] += lane == i ? 0.0 : weight;
      if (p == own) value = 1;
    }
    return value;
  }

  // The same for one column j where columns share signatures: all that are equivalent to one of the top are hits.
  double sharedHitWithout(const LabelValues& row, std::int32_t own, std::int32_t j, int hit, double& value) const {
    std::int32_t top[kTopColumns];
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
  std::vector<double> product_[kFigures];   // [columns]: weight value
  std::vector<double> square_[kMiFigures];  // [columns]: weight value^2
};

}  // namespace

Outcome sumRows(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets, RowSums& out,
                ThreadPool& pool, JobControl& control) {
  allocate(out, input.columns);
  for (int f = 0; f < kFigures; f++) out.values[f].resize(static_cast<std::size_t>(input.rows));
  out.margins.resize(static_cast<std::size_t>(input.rows));
  out.among.resize(static_cast<std::size_t>(subsets.sizes));
  for (auto& values : out.among) values.resize(static_cast<std::size_t>(input.rows));
  const bool tabled = input.permutations > 0 && input.rows <= input.mostTabled / input.columns;
  if (tabled) {
    out.looValues.resize(static_cast<std::size_t>(input.rows * input.columns));
    out.levels.resize(static_cast<std::size_t>(input.rows * input.columns));
  } else if (input.permutations > 0) {
    out.looTerms.resize(static_cast<std::size_t>(input.rows));
    out.topColumns.resize(static_cast<std::size_t>(input.rows * kTopColumns));
  }
  const std::int64_t even = (input.rows + kMaxBlocks - 1) / kMaxBlocks;
  const std::int64_t blockRows = even > kMinBlockRows ? even : kMinBlockRows;
  const std::int64_t blocks = (input.rows + blockRows - 1) / blockRows;
  std::vector<RowSums> parts(static_cast<std::size_t>(blocks));
  // All memory before the threads start: one that throws has nowhere to report it.
  for (RowSums& part : parts) allocate(part, input.columns);
  std::vector<std::unique_ptr<LabelValues>> scratch;
  std::vector<std::unique_ptr<RowAdder>> adders;
  std::vector<std::unique_ptr<SubsetValues>> subsetValues;
  std::vector<std::unique_ptr<PromptJackknife>> jackknives;
  for (int worker = 0; worker < pool.threads(); worker++) {
    scratch.push_back(std::make_unique<LabelValues>(input, columns));
    adders.push_back(std::make_unique<RowAdder>(input, columns));
    subsetValues.push_back(std::make_unique<SubsetValues>(input, subsets));
    jackknives.push_back(std::make_unique<PromptJackknife>(input, columns, subsets));
  }

  const Outcome outcome = pool.run(blocks, control, [&](std::int64_t block, int worker) {
    LabelValues& row = *scratch[worker];
    RowSums& part = parts[block];
    RowAdder& adder = *adders[worker];
    SubsetValues& ofSubsets = *subsetValues[worker];
    const std::int64_t end = std::min(input.rows, (block + 1) * blockRows);
    for (std::int64_t r = block * blockRows; r < end; r++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      row.compute(r);
      double rowValues[kFigures];
      adder.add(r, row, part, rowValues);
      for (int f = 0; f < kFigures; f++) out.values[f][r] = rowValues[f];
      ofSubsets.compute(r, row.terms(), row.highest);
      out.margins[r] = ofSubsets.margin;
      for (int i = 0; i < subsets.sizes; i++) out.among[i][r] = ofSubsets.at[i];
      jackknives[worker]->add(r, row.terms(), row.highest, ofSubsets.at);
      if (!out.looTerms.empty()) {
        out.looTerms[r] = row.loo;
        std::copy_n(row.topColumns(), row.topColumnCount(), out.topColumns.begin() + r * kTopColumns);
      }
      if (tabled) {
        std::copy(row.value[kMiSeqLoo].begin(), row.value[kMiSeqLoo].end(), out.looValues.begin() + r * input.columns);
        std::copy(row.level.begin(), row.level.end(), out.levels.begin() + r * input.columns);
      }
    }
    control.doneUnits.fetch_add((end - block * blockRows) * input.columns, std::memory_order_relaxed);
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;

  for (std::size_t worker = 1; worker < jackknives.size(); worker++) jackknives[0]->merge(*jackknives[worker]);
  out.overPrompts = jackknives[0]->figures();
  for (const RowSums& part : parts) {
    addTo(out.weight, part.weight);
    addTo(out.squaredWeight, part.squaredWeight);
    for (int f = 0; f < kFigures; f++) {
      addTo(out.weighted[f], part.weighted[f]);
      if (f < kMiFigures) addTo(out.weightedSquares[f], part.weightedSquares[f]);
      addTo(out.squareWeighted[f], part.squareWeighted[f]);
      addTo(out.squareWeightedSquares[f], part.squareWeightedSquares[f]);
      addTo(out.without[f], part.without[f]);
      addTo(out.expectedWithout[f], part.expectedWithout[f]);
      out.labelVariance[f] += part.labelVariance[f];
      out.expected[f] += part.expected[f];
    }
    out.scoreScale += part.scoreScale;
    out.scoreScaleToken += part.scoreScaleToken;
  }
  for (int f = kMiFigures; f < kFigures; f++) out.weightedSquares[f] = out.weighted[f];
  std::vector<double> rowsAlike(static_cast<std::size_t>(input.columns), 0.0);  // by signature
  for (std::int64_t p = 0; p < input.columns; p++) rowsAlike[columns.signature[p]] += columns.rowCounts[p];
  for (std::int64_t p = 0; p < input.columns; p++) {
    out.part.push_back(columns.rowCounts[p] / rowsAlike[columns.signature[p]]);
  }
  return Outcome::Done;
}

}  // namespace collapsar
