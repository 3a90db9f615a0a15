// A row's scores -> its values under every label. Cancelling differences (a sum less its largest term) are summed anew.
#include "label_values.h"

#include <cmath>
#include <limits>

#include "deterministic_math.h"

namespace collapsar {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint8_t kUnlisted = 255;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

StepColumns::StepColumns(const InferenceInput& input)
    : signature(input.columns), sharing(input.columns, 0), rowsOf(input.columns, 0), logOthers(input.columns + 1) {
  const std::int64_t columns = input.columns;
  for (std::int64_t p = 0; p < columns; p++) {
    signature[p] = input.labels.signature != nullptr ? input.labels.signature[p] : static_cast<std::int32_t>(p);
    sharing[signature[p]]++;
  }
  for (const std::int64_t count : sharing) distinct += count > 0;
  for (std::int64_t r = 0; r < input.rows; r++) rowsOf[input.labels.own[r]]++;
  for (const std::int64_t count : rowsOf) sampledColumns += count > 0;
  for (std::int64_t n = 0; n <= columns; n++) logOthers[n] = deterministicLog(static_cast<double>(n));
}

LabelValues::LabelValues(const InferenceInput& input, const StepColumns& columns) : input_(input), columns_(columns) {
  const auto size = static_cast<std::size_t>(input.columns);
  for (auto* vector : {&weight, &weightRest, &dropSeq, &dropToken, &dropLoo, &exp_, &other_, &logRest_, &sigSum_}) {
    vector->resize(size);
  }
  for (auto& values : value) values.resize(size);
  level.resize(size);
  sigLevel_.resize(size);
  topPosition_.resize(size);
}

namespace {

// ln sum exp(scale * (score - reference)) over the columns that `keep` lets through; -inf if all are -inf or none is
// kept.
template <class Keep>
inline __attribute__((always_inline)) double logSumOver(const double* scores, std::int64_t columns, double reference,
                                                        double divisor, Keep keep) {
  double top = -kInfinity;
  for (std::int64_t p = 0; p < columns; p++) {
    if (keep(p) && scores[p] > top) top = scores[p];
  }
  if (top == -kInfinity) return -kInfinity;
  double sum = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    if (keep(p)) sum += deterministicExp((scores[p] - top) / divisor);
  }
  return (top - reference) / divisor + deterministicLog(sum);
}

// From terms[p] = exp((score - top)/divisor) and their total: what leaving out each column does to a log-mean-exp,
// negated: ln mean over all - ln mean over the rest. logRest gets ln of the rest's sum.
inline __attribute__((always_inline)) void dropColumns(const double* scores, std::int64_t columns, double top,
                                                       double divisor, const double* terms, double total,
                                                       double logRatio, double* logRest, double* drop) {
  const double logTotal = deterministicLog(total);
  for (std::int64_t j = 0; j < columns; j++) {
    logRest[j] = terms[j] <= 0.5 * total
                     ? deterministicLog(total - terms[j])
                     : logSumOver(scores, columns, top, divisor, [j](std::int64_t p) { return p != j; });
    drop[j] = logTotal - logRest[j] + logRatio;
  }
}

}  // namespace

inline __attribute__((always_inline)) void LabelValues::computeBody(std::int64_t r) {
  const std::int64_t columns = input_.columns;
  const double* scores = input_.scores + r * columns;
  const std::int32_t own = input_.labels.own[r];
  const std::int64_t length = input_.labels.lengths[r] > 1 ? input_.labels.lengths[r] : 1;
  const auto divisor = static_cast<double>(length);
  const auto& logOf = columns_.logOthers;
  const double logRatio = columns > 1 ? logOf[columns - 1] - logOf[columns] : kNan;
  perLength = 1.0 / divisor;

  double top = -kInfinity;
  scoreScale = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    if (scores[p] > top) top = scores[p];
    const double size = std::fabs(scores[p]);
    if (size > scoreScale && size < kInfinity) scoreScale = size;
  }

  double total = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    exp_[p] = deterministicExp(scores[p] - top);
    total += exp_[p];
  }
  dropColumns(scores, columns, top, 1.0, exp_.data(), total, logRatio, logRest_.data(), dropSeq.data());

  // Values under each label.
  const double marginalSeq = input_.stats->marginalSeq[r], marginalToken = input_.stats->marginalToken[r];
  for (std::int64_t p = 0; p < columns; p++) {
    value[kMiSeq][p] = scores[p] - marginalSeq;
    value[kMiPerToken][p] = (scores[p] - marginalSeq) / divisor;
    value[kMiToken][p] = scores[p] / divisor - marginalToken;
  }
  if (columns_.distinct == columns) {
    for (std::int64_t p = 0; p < columns; p++) {
      value[kMiSeqLoo][p] = columns < 2               ? kNan
                            : scores[p] == -kInfinity ? -kInfinity
                                                      : scores[p] - (top + logRest_[p] - logOf[columns - 1]);
    }
  } else {
    const auto& signature = columns_.signature;
    for (std::int64_t p = 0; p < columns; p++) sigSum_[p] = 0;
    for (std::int64_t p = 0; p < columns; p++) sigSum_[signature[p]] += exp_[p];
    for (std::int64_t s = 0; s < columns; s++) {  // logRest_ by signature from here on
      if (columns_.sharing[s] == 0) continue;
      logRest_[s] = sigSum_[s] <= 0.5 * total
                        ? deterministicLog(total - sigSum_[s])
                        : logSumOver(scores, columns, top, 1.0, [&](std::int64_t p) { return signature[p] != s; });
    }
    for (std::int64_t p = 0; p < columns; p++) {
      const std::int64_t others = columns - columns_.sharing[signature[p]];
      value[kMiSeqLoo][p] = others < 1                ? kNan
                            : scores[p] == -kInfinity ? -kInfinity
                                                      : scores[p] - (top + logRest_[signature[p]] - logOf[others]);
    }
  }

  // The leave-one-out value of the row's own label without column j.
  const std::int32_t ownSignature = columns_.signature[own];
  const std::int64_t others = columns - columns_.sharing[ownSignature];
  if (others < 2) {
    for (std::int64_t j = 0; j < columns; j++) dropLoo[j] = kNan;
  } else {
    const auto foreign = [&](std::int64_t p) { return columns_.signature[p] != ownSignature; };
    double otherTop = -kInfinity;
    for (std::int64_t p = 0; p < columns; p++) {
      if (foreign(p) && scores[p] > otherTop) otherTop = scores[p];
    }
    if (otherTop == -kInfinity) {
      for (std::int64_t j = 0; j < columns; j++) dropLoo[j] = kNan;
    } else {
      double otherTotal = 0;
      for (std::int64_t p = 0; p < columns; p++) {
        other_[p] = !foreign(p) ? 0.0 : otherTop == top ? exp_[p] : deterministicExp(scores[p] - otherTop);
        otherTotal += other_[p];
      }
      const double logOther = deterministicLog(otherTotal), ratio = logOf[others - 1] - logOf[others];
      for (std::int64_t j = 0; j < columns; j++) {
        if (!foreign(j)) {
          dropLoo[j] = 0;
          continue;
        }
        const double rest =
            other_[j] <= 0.5 * otherTotal
                ? deterministicLog(otherTotal - other_[j])
                : logSumOver(scores, columns, otherTop, 1.0, [&](std::int64_t p) { return foreign(p) && p != j; });
        dropLoo[j] = logOther - rest + ratio;
      }
    }
  }

  // The posterior of the label: before exp_ is used for the per-token terms.
  const auto& rowsOf = columns_.rowsOf;
  double sampledTop = -kInfinity;
  for (std::int64_t p = 0; p < columns; p++) {
    if (rowsOf[p] > 0 && scores[p] > sampledTop) sampledTop = scores[p];
  }
  double weightTotal = 0;
  for (std::int64_t p = 0; p < columns; p++) {
    const double term = sampledTop == top ? exp_[p] : rowsOf[p] > 0 ? deterministicExp(scores[p] - sampledTop) : 0.0;
    weight[p] = term * static_cast<double>(rowsOf[p]);
    weightTotal += weight[p];
  }
  for (std::int64_t p = 0; p < columns; p++) weight[p] /= weightTotal;
  for (std::int64_t j = 0; j < columns; j++) {
    if (weight[j] <= 0.5) {
      weightRest[j] = 1.0 - weight[j];
    } else {
      weightRest[j] = 0;
      for (std::int64_t p = 0; p < columns; p++) weightRest[j] += p != j ? weight[p] : 0.0;
    }
  }

  // Per token.
  if (length == 1) {
    dropToken = dropSeq;
  } else {
    double tokenTotal = 0;
    for (std::int64_t p = 0; p < columns; p++) {
      exp_[p] = deterministicExp((scores[p] - top) / divisor);
      tokenTotal += exp_[p];
    }
    dropColumns(scores, columns, top, divisor, exp_.data(), tokenTotal, logRatio, logRest_.data(), dropToken.data());
  }
}

// Where the CPU has fma as an instruction the same code runs some ten times faster than with the library's function;
// fma is exact by definition, so the bits are the same.
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("fma,avx2"))) void LabelValues::computeRowFma(std::int64_t r) { computeBody(r); }
#endif
void LabelValues::computeRow(std::int64_t r) { computeBody(r); }

void LabelValues::compute(std::int64_t r) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool hasFma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  hasFma ? computeRowFma(r) : computeRow(r);
#else
  computeRow(r);
#endif
  findTop(r);
}

void LabelValues::findTop(std::int64_t r) {
  const std::int64_t columns = input_.columns;
  const double* scores = input_.scores + r * columns;
  topK_ = input_.stats->topK;
  top_ = input_.stats->topColumns + r * topK_;
  for (std::int64_t s = 0; s < columns; s++) sigLevel_[s] = kNoHit;
  for (int i = 0; i < topK_; i++) {
    std::uint8_t& first = sigLevel_[columns_.signature[top_[i]]];
    if (first == kNoHit) first = i < 1 ? 0 : i < 2 ? 1 : i < 4 ? 2 : 3;
  }
  for (std::int64_t p = 0; p < columns; p++) {
    level[p] = sigLevel_[columns_.signature[p]];
    topPosition_[p] = kUnlisted;
  }
  for (int i = 0; i < topK_; i++) topPosition_[top_[i]] = static_cast<std::uint8_t>(i);

  next_ = -1;
  if (topK_ < kMaxTopK || columns <= kMaxTopK) return;
  for (std::int64_t p = 0; p < columns; p++) {
    if (topPosition_[p] == kUnlisted && (next_ < 0 || scores[p] > scores[next_])) next_ = static_cast<std::int32_t>(p);
  }
}

int LabelValues::topWithout(std::int64_t j, int hit, std::int32_t* out) const {
  const int wanted = 1 << hit;
  if (topPosition_[j] >= wanted) return -1;
  int count = 0;
  for (int i = 0; i < topK_ && count < wanted; i++) {
    if (top_[i] != j) out[count++] = top_[i];
  }
  if (count < wanted && next_ >= 0) out[count++] = next_;
  return count;
}

}  // namespace collapsar
