// A row's scores -> its values under every label. Cancelling differences (a sum less its largest term) are summed anew.
#include "label_values.h"

#include <algorithm>
#include <cmath>

#include "engine/deterministic_math.h"
#include "engine/special_values.h"

namespace collapsar {

namespace {

constexpr std::uint8_t kUnlisted = 255;

}  // namespace

LabelValues::LabelValues(const InferenceInput& input, const StepColumns& columns)
    : input_(input), columns_(columns), kernels_(kernels()) {
  const auto size = static_cast<std::size_t>(input.columns);
  const std::size_t padded = (size + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles;
  for (auto* vector : {&weight, &weightRest, &dropSeq, &dropToken, &dropLoo}) vector->resize(size);
  for (auto* vector : {&exp_, &other_, &logRest_, &sigSum_, &argument_, &term_}) vector->resize(padded);
  for (auto& values : value) values.resize(size);
  level.resize(size);
  sigLevel_.resize(size);
  topPosition_.resize(size);
}

// ln sum exp((score - reference) / divisor) over the columns that `keep` lets through; -inf if there are none.
template <class Keep>
inline __attribute__((always_inline)) double LabelValues::logSumOver(const double* scores, double reference,
                                                                     double divisor, Keep keep) {
  const std::int64_t columns = input_.columns;
  double largest = -kInfinity;
  for (std::int64_t p = 0; p < columns; p++) {
    if (keep(p) && scores[p] > largest) largest = scores[p];
  }
  if (largest == -kInfinity) return -kInfinity;
  double* const terms = term_.data();
  for (std::int64_t p = 0; p < columns; p++) terms[p] = (scores[p] - largest) / divisor;
  kernels_.exponentials(terms, columns, terms);
  double sum = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    if (keep(p)) sum += terms[p];
  }
  return (largest - reference) / divisor + kernels_.log(sum);
}

// From terms[p] = exp((score - best score)/divisor) and their total: what leaving out each column does to a
// log-mean-exp, negated: ln mean over all - ln mean over the rest. logRest_ gets ln of the rest's sum.
inline __attribute__((always_inline)) void LabelValues::dropColumns(const double* scores, std::int64_t best,
                                                                    double divisor, const double* terms, double total,
                                                                    double logRatio, double* drop) {
  const std::int64_t columns = input_.columns;
  const double logTotal = kernels_.log(total);
  double* const rest = argument_.data();
  double* const logRest = logRest_.data();
  for (std::int64_t j = 0; j < columns; j++) rest[j] = total - terms[j];
  kernels_.logarithms(rest, columns, logRest);
  // No other can be more than half of the total.
  if (!(terms[best] <= 0.5 * total)) {
    logRest[best] = logSumOver(scores, scores[best], divisor, [best](std::int64_t p) { return p != best; });
  }
  for (std::int64_t j = 0; j < columns; j++) drop[j] = logTotal - logRest[j] + logRatio;
}

// The row's own numbers; exp_ gets exp(score - top).
inline __attribute__((always_inline)) LabelValues::Row LabelValues::beginRow(std::int64_t r) {
  const std::int64_t columns = input_.columns;
  const double* const logOf = columns_.logOthers.data();
  const std::int64_t length = input_.labels.lengths[r] > 1 ? input_.labels.lengths[r] : 1;
  Row row{};
  row.scores = input_.scores + r * columns;
  row.own = input_.labels.own[r];
  row.divisor = static_cast<double>(length);
  row.logRatio = columns > 1 ? logOf[columns - 1] - logOf[columns] : kNaN;
  perLength = 1.0 / row.divisor;

  const double* const scores = row.scores;
  double top = -kInfinity;
  std::int64_t best = 0;
  scoreScale = logOf[columns];  // rounding there is, too, where all scores are 0
  for (std::int64_t p = 0; p < columns; p++) {
    if (scores[p] > top) {
      top = scores[p];
      best = p;
    }
    const double size = std::fabs(scores[p]);
    if (size > scoreScale && size < kInfinity) scoreScale = size;
  }
  row.top = highest = top;
  row.best = best;

  double* const argument = argument_.data();
  double* const terms = exp_.data();
  for (std::int64_t p = 0; p < columns; p++) argument[p] = scores[p] - top;
  kernels_.exponentials(argument, columns, terms);
  double total = 0;
  for (std::int64_t p = 0; p < columns; p++) total += terms[p];
  row.total = total;
  return row;
}

// The values that have no leave-one-out marginal.
inline __attribute__((always_inline)) void LabelValues::plainValues(std::int64_t r, const Row& row) {
  const std::int64_t columns = input_.columns;
  const double* const scores = row.scores;
  const double divisor = row.divisor;
  const double marginalSeq = input_.stats->marginalSeq[r], marginalToken = input_.stats->marginalToken[r];
  double* const valueSeq = value[kMiSeq].data();
  double* const valuePerToken = value[kMiPerToken].data();
  double* const valueToken = value[kMiToken].data();
  for (std::int64_t p = 0; p < columns; p++) valueSeq[p] = scores[p] - marginalSeq;
  for (std::int64_t p = 0; p < columns; p++) valuePerToken[p] = (scores[p] - marginalSeq) / divisor;
  for (std::int64_t p = 0; p < columns; p++) valueToken[p] = scores[p] / divisor - marginalToken;
}

// The leave-one-out value under each label, after dropColumns() of the whole row, whose logRest_ is used up here.
inline __attribute__((always_inline)) void LabelValues::looValues(const Row& row) {
  const std::int64_t columns = input_.columns;
  const double* const scores = row.scores;
  const double* const logOf = columns_.logOthers.data();
  const double* const terms = exp_.data();
  const double top = row.top, total = row.total;
  double* const valueLoo = value[kMiSeqLoo].data();
  loo = {top, total, 0, -1};
  if (columns_.distinct == columns) {
    const double* const logRest = logRest_.data();
    if (!(terms[row.best] <= 0.5 * total)) loo = {top, total, logRest[row.best], columns_.signature[row.best]};
    const double logOthers = columns < 2 ? kNaN : logOf[columns - 1];
    for (std::int64_t p = 0; p < columns; p++) {
      const double excess = scores[p] - (top + logRest[p] - logOthers);
      valueLoo[p] = scores[p] == -kInfinity ? -kInfinity : excess;
    }
    if (columns < 2) valueLoo[0] = kNaN;
    return;
  }
  const auto& signature = columns_.signature;
  for (std::int64_t p = 0; p < columns; p++) sigSum_[p] = 0;
  for (std::int64_t p = 0; p < columns; p++) sigSum_[signature[p]] += terms[p];
  for (std::int64_t s = 0; s < columns; s++) {  // logRest_ by signature from here on
    if (columns_.sharing[s] == 0) continue;
    if (sigSum_[s] <= 0.5 * total) {
      logRest_[s] = kernels_.log(total - sigSum_[s]);
    } else {
      logRest_[s] = logSumOver(scores, top, 1.0, [&](std::int64_t p) { return signature[p] != s; });
      loo = {top, total, logRest_[s], static_cast<std::int32_t>(s)};
    }
  }
  for (std::int64_t p = 0; p < columns; p++) {
    const std::int64_t others = columns - columns_.sharing[signature[p]];
    valueLoo[p] = others < 1                ? kNaN
                  : scores[p] == -kInfinity ? -kInfinity
                                            : scores[p] - (top + logRest_[signature[p]] - logOf[others]);
  }
}

// What leaving out a column does to the leave-one-out value of the row's own label.
inline __attribute__((always_inline)) void LabelValues::dropFromLoo(const Row& row) {
  const std::int64_t columns = input_.columns;
  const double* const scores = row.scores;
  const double* const logOf = columns_.logOthers.data();
  const double* const terms = exp_.data();
  double* const argument = argument_.data();
  const std::int32_t* const signature = columns_.signature.data();
  const std::int32_t ownSignature = signature[row.own];
  const std::int64_t others = columns - columns_.sharing[ownSignature];
  const auto foreign = [&](std::int64_t p) { return signature[p] != ownSignature; };
  double otherTop = -kInfinity;
  std::int64_t otherBest = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    if (scores[p] > otherTop && foreign(p)) {
      otherTop = scores[p];
      otherBest = p;
    }
  }
  if (others < 2 || otherTop == -kInfinity) {
    for (std::int64_t j = 0; j < columns; j++) dropLoo[j] = kNaN;
    return;
  }
  double* const other = other_.data();
  if (otherTop == row.top) {
    for (std::int64_t p = 0; p < columns; p++) other[p] = terms[p];
  } else {
    for (std::int64_t p = 0; p < columns; p++) argument[p] = scores[p] - otherTop;
    kernels_.exponentials(argument, columns, other);
  }
  double otherTotal = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    if (!foreign(p)) other[p] = 0.0;
    otherTotal += other[p];
  }
  const double logOther = kernels_.log(otherTotal), ratio = logOf[others - 1] - logOf[others];
  for (std::int64_t j = 0; j < columns; j++) argument[j] = otherTotal - other[j];
  double* const logOthersRest = argument;
  kernels_.logarithms(argument, columns, logOthersRest);
  for (std::int64_t j = 0; j < columns; j++) dropLoo[j] = logOther - logOthersRest[j] + ratio;
  if (!(other[otherBest] <= 0.5 * otherTotal)) {
    const double rest = logSumOver(scores, otherTop, 1.0, [&](std::int64_t p) { return foreign(p) && p != otherBest; });
    dropLoo[otherBest] = logOther - rest + ratio;
  }
  for (std::int64_t j = 0; j < columns; j++) {
    if (!foreign(j)) dropLoo[j] = 0;
  }
}

// weight, weightRest and heavy.
inline __attribute__((always_inline)) void LabelValues::labelPosterior(const Row& row) {
  const std::int64_t columns = input_.columns;
  const double* const scores = row.scores;
  const double* const terms = exp_.data();
  const double* const rowCounts = columns_.rowCounts.data();
  double* const argument = argument_.data();
  double sampledTop = -kInfinity;
  for (std::int64_t p = 0; p < columns; p++) {
    if (rowCounts[p] > 0 && scores[p] > sampledTop) sampledTop = scores[p];
  }
  double* const weights = weight.data();
  if (sampledTop == row.top) {
    for (std::int64_t p = 0; p < columns; p++) weights[p] = terms[p] * rowCounts[p];
  } else {
    for (std::int64_t p = 0; p < columns; p++) argument[p] = scores[p] - sampledTop;
    kernels_.exponentials(argument, columns, argument);
    for (std::int64_t p = 0; p < columns; p++) weights[p] = rowCounts[p] > 0 ? argument[p] * rowCounts[p] : 0.0;
  }
  double weightTotal = 0;
  for (std::int64_t p = 0; p < columns; p++) weightTotal += weights[p];
  for (std::int64_t p = 0; p < columns; p++) weights[p] /= weightTotal;
  heavy = -1;
  for (std::int64_t j = 0; j < columns; j++) {
    weightRest[j] = 1.0 - weights[j];
    if (weights[j] > 0.5) heavy = j;
  }
  if (heavy >= 0) {
    weightRest[heavy] = 0;
    for (std::int64_t p = 0; p < columns; p++) weightRest[heavy] += p != heavy ? weights[p] : 0.0;
  }
}

// dropToken; after dropFromLoo(), whose other_ gets the terms of the per-token means.
inline __attribute__((always_inline)) void LabelValues::dropTokens(const Row& row) {
  if (row.divisor == 1.0) {
    dropToken = dropSeq;
    return;
  }
  const std::int64_t columns = input_.columns;
  const double* const scores = row.scores;
  double* const argument = argument_.data();
  double* const terms = other_.data();
  for (std::int64_t p = 0; p < columns; p++) argument[p] = (scores[p] - row.top) / row.divisor;
  kernels_.exponentials(argument, columns, terms);
  double total = 0;
  for (std::int64_t p = 0; p < columns; p++) total += terms[p];
  dropColumns(scores, row.best, row.divisor, terms, total, row.logRatio, dropToken.data());
}

// The nine best. Without branches, each of which would be guessed wrong: of 16 lanes' maxima nine reach the ninth
// largest, so that it bounds the candidates, and a candidate's place is how many go before it.
inline __attribute__((always_inline)) LabelValues::Best LabelValues::bestOf(const double* scores,
                                                                            std::int64_t columns) {
  constexpr std::int64_t kLanes = 16, kMostCandidates = 32;
  double largest[kLanes];
  std::fill_n(largest, kLanes, -kInfinity);
  for (std::int64_t p = 0; p + kLanes <= columns; p += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; lane++) {
      largest[lane] = scores[p + lane] > largest[lane] ? scores[p + lane] : largest[lane];
    }
  }
  double bound = kInfinity;
  for (const double one : largest) {
    std::int64_t above = 0;
    for (const double other : largest) above += other > one ? 1 : 0;
    bound = above <= kTopColumns && one < bound ? one : bound;
  }
  std::int32_t candidates[kMostCandidates + 1];
  double values[kMostCandidates + 1];
  std::int64_t count = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    candidates[count] = static_cast<std::int32_t>(p);
    values[count] = scores[p];
    count += scores[p] >= bound && count < kMostCandidates ? 1 : 0;
  }
  Best best;
  if (count == kMostCandidates) {  // many alike
    for (std::int64_t p = 0; p < columns; p++) best.take(scores[p], static_cast<std::int32_t>(p));
    return best;
  }
  const std::int64_t padded = (count + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles;
  for (std::int64_t i = count; i < padded; i++) values[i] = kNaN;  // goes before none
  std::int32_t sorted[kMostCandidates];
  for (std::int64_t i = 0; i < count; i++) {
    std::int64_t above = 0, alike = 0;
    for (std::int64_t j = 0; j < padded; j++) above += values[j] > values[i] ? 1 : 0;
    for (std::int64_t j = 0; j < i; j++) alike += values[j] == values[i] ? 1 : 0;
    sorted[above + alike] = candidates[i];
  }
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, kTopColumns + 1); i++) {
    best.take(scores[sorted[i]], sorted[i]);
  }
  return best;
}

inline __attribute__((always_inline)) void LabelValues::findTop(std::int64_t r) {
  const std::int64_t columns = input_.columns;
  const double* scores = input_.scores + r * columns;
  best_ = bestOf(scores, columns);
  std::fill(sigLevel_.begin(), sigLevel_.end(), kNoHit);
  setHitLevels(topColumns(), topColumnCount(), columns_, sigLevel_.data());
  if (input_.labels.signature == nullptr) {
    level = sigLevel_;
  } else {
    for (std::int64_t p = 0; p < columns; p++) level[p] = sigLevel_[columns_.signature[p]];
  }
  std::fill(topPosition_.begin(), topPosition_.end(), kUnlisted);
  topCount = best_.count();
  for (int i = 0; i < topCount; i++) {
    top[i] = {best_.columns()[i], i};
    if (i < kTopColumns) topPosition_[best_.columns()[i]] = static_cast<std::uint8_t>(i);
  }
  std::sort(top, top + topCount, [](const TopColumn& a, const TopColumn& b) { return a.column < b.column; });
}

inline __attribute__((always_inline)) void LabelValues::computeBody(std::int64_t r) {
  const Row row = beginRow(r);
  dropColumns(row.scores, row.best, 1.0, exp_.data(), row.total, row.logRatio, dropSeq.data());
  plainValues(r, row);
  looValues(row);
  dropFromLoo(row);
  labelPosterior(row);
  dropTokens(row);
  findTop(r);
}

void LabelValues::computeRow(std::int64_t r) { computeBody(r); }
#if defined(__x86_64__) && defined(__GNUC__)
COLLAPSAR_AVX2 void LabelValues::computeRowAvx2(std::int64_t r) { computeBody(r); }
COLLAPSAR_AVX512 void LabelValues::computeRowAvx512(std::int64_t r) { computeBody(r); }
#endif

void LabelValues::compute(std::int64_t r) {
#if defined(__x86_64__) && defined(__GNUC__)
  const int width = vectorBytes();
  width == 64 ? computeRowAvx512(r) : width == 32 ? computeRowAvx2(r) : computeRow(r);
#else
  computeRow(r);
#endif
}

int LabelValues::topWithout(std::int64_t j, int hit, std::int32_t* out) const {
  const int wanted = 1 << hit;
  if (topPosition_[j] >= wanted) return -1;
  int count = 0;
  for (int i = 0; i < topCount && count < wanted; i++) {
    if (best_.columns()[i] != j) out[count++] = best_.columns()[i];
  }
  return count;
}

}  // namespace collapsar
