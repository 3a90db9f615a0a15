// What scoreStats and tokensToRowStats have in common: the labels of rows and columns, all fields of the results, and
// how a row of them is compared with the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_check.h"
#include "gates.h"
#include "result_field.h"
#include "test/check.h"
#include "test/random_numbers.h"
#include "test/references/scores.h"

namespace collapsar::test {

struct RowLabels {
  std::vector<std::int32_t> own, signature;
  std::vector<std::int64_t> lengths;
};

inline RowLabels labelsFor(std::int64_t rows, std::int64_t columns, bool signatures, Numbers& numbers) {
  RowLabels labels;
  for (std::int64_t r = 0; r < rows; r++) {
    labels.own.push_back(static_cast<std::int32_t>(numbers.below(columns)));
    labels.lengths.push_back(numbers.below(300));
  }
  const std::int64_t distinct = numbers.below(3) == 0 ? 1 : std::max<std::int64_t>(1, columns / 3);
  for (std::int64_t c = 0; signatures && c < columns; c++) {
    labels.signature.push_back(static_cast<std::int32_t>(numbers.below(distinct)));
  }
  return labels;
}

// All fields, and how they are compared with the reference.
struct RowStatsFields {
  RowStatsFields(std::int64_t rows, int k, bool onDevice) : topK(k) {
    for (int i = 0; i < 7; i++) doubles.push_back(std::make_unique<Field<double>>(rows, onDevice));
    for (int i = 0; i < 4; i++) integers.push_back(std::make_unique<Field<std::int32_t>>(rows, onDevice));
    integers.push_back(std::make_unique<Field<std::int32_t>>(rows * k, onDevice));
    stats.size = sizeof stats;
    stats.on_device = onDevice;
    double** const d[] = {&stats.matched_seq,      &stats.matched_token,    &stats.marginal_seq,
                          &stats.marginal_token,   &stats.loo_marginal_seq, &stats.loo_marginal_token,
                          &stats.posterior_entropy};
    for (std::size_t i = 0; i < 7; i++) *d[i] = doubles[i]->pointer();
    std::int32_t** const n[] = {&stats.argmax, &stats.rank_above, &stats.rank_equal, &stats.hit_rank,
                                &stats.top_columns};
    for (std::size_t i = 0; i < 5; i++) *n[i] = integers[i]->pointer();
    stats.top_k = k;
  }
  std::vector<std::unique_ptr<Field<double>>> doubles;
  std::vector<std::unique_ptr<Field<std::int32_t>>> integers;
  CollapsarCudaRowStats stats{};
  int topK;
};

inline void compareRow(const std::vector<double>& scores, std::int64_t r, const RowLabels& labels,
                       RowStatsFields& fields, bool wide, const std::string& at) {
  rowsChecked++;
  const auto i = static_cast<std::size_t>(r);
  const std::int32_t* const signature = labels.signature.empty() ? nullptr : labels.signature.data();
  const ReferenceRow expected = referenceRow(scores, labels.own[i], labels.lengths[i], signature);
  const double own = scores[static_cast<std::size_t>(labels.own[i])];
  const double length = static_cast<double>(std::max<std::int64_t>(labels.lengths[i], 1));
  const long double values[] = {own,
                                own / length,
                                expected.marginalSeq,
                                expected.marginalToken,
                                expected.looMarginalSeq,
                                expected.looMarginalToken,
                                expected.posteriorEntropy};
  const char* const names[] = {"matchedSeq",     "matchedToken",     "marginalSeq",     "marginalToken",
                               "looMarginalSeq", "looMarginalToken", "posteriorEntropy"};
  for (std::size_t f = 0; f < 7; f++) {
    const double actual = fields.doubles[f]->values()[i];
    const double allowed = f < 2    ? 0
                           : f == 6 ? entropyGate(wide, values[f])
                                    : marginalGate(wide, values[f], std::log(static_cast<long double>(scores.size())));
    CHECK_NEAR(actual, static_cast<double>(values[f]), allowed, names[f], ", ", at, r);
    Worst& worst = wide ? worstWide : worstNarrow;
    if (f >= 2) note(f == 6 ? worst.entropy : worst.marginal, actual, values[f], allowed);
  }
  CHECK_EQUAL(fields.integers[0]->values()[i], expected.argmax, "argmax, ", at, r);
  CHECK_EQUAL(fields.integers[1]->values()[i], expected.rankAbove, "above, ", at, r);
  CHECK_EQUAL(fields.integers[2]->values()[i], expected.rankEqual, "equal, ", at, r);
  CHECK_EQUAL(fields.integers[3]->values()[i], expected.hitRank, "hit rank, ", at, r);
  for (int k = 0; k < fields.topK; k++) {
    CHECK_EQUAL(fields.integers[4]->values()[i * static_cast<std::size_t>(fields.topK) + static_cast<std::size_t>(k)],
                expected.byRank[static_cast<std::size_t>(k)], "top ", k, ", ", at, r);
  }
}

// The fields, once: each look at a device field downloads it.
inline void settle(RowStatsFields& fields) {
  for (auto& field : fields.doubles) {
    auto host = std::make_unique<Field<double>>(0, false);
    const std::vector<double> values = field->values();
    host = std::make_unique<Field<double>>(static_cast<std::int64_t>(values.size()), false);
    std::copy(values.begin(), values.end(), host->pointer());
    field = std::move(host);
  }
  for (auto& field : fields.integers) {
    const std::vector<std::int32_t> values = field->values();
    auto host = std::make_unique<Field<std::int32_t>>(static_cast<std::int64_t>(values.size()), false);
    std::copy(values.begin(), values.end(), host->pointer());
    field = std::move(host);
  }
}

}  // namespace collapsar::test
