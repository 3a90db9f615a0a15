// The section "repeats": every operation again and again, which must give the same bits.
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_check.h"
#include "placed_matrix.h"
#include "placed_tokens.h"
#include "row_stats_fields.h"
#include "test/check.h"
#include "test/random_numbers.h"

namespace collapsar::test {
namespace {

// All numbers that `run` gives, again and again, bit by bit.
template <class Run>
void checkRepeats(const char* what, Run run) {
  const std::vector<double> first = run();
  for (int repeat = 0; repeat < 3; repeat++) {
    const std::vector<double> again = run();
    const bool same = again.size() == first.size() && std::memcmp(again.data(), first.data(), 8 * first.size()) == 0;
    CHECK_EQUAL(same, true, what);
    rowsChecked++;
  }
}

void addNumbers(std::vector<double>& all, RowStatsFields& fields) {
  settle(fields);
  for (const auto& field : fields.doubles) {
    all.insert(all.end(), field->values().begin(), field->values().end());
  }
  for (const auto& field : fields.integers) {
    all.insert(all.end(), field->values().begin(), field->values().end());
  }
}

}  // namespace

// The same bits on every run.
void repeatChecks() {
  Numbers numbers(options.seed * 1000 + 7);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {300, 40000}) {
      PlacedMatrix logits(dtype, 5, columns, kOdd);
      fill(logits, [&](std::int64_t, std::int64_t) { return 5 * numbers.bell(); });
      const std::vector<std::int32_t> targets(5, 17);
      checkRepeats("logit_stats", [&] {
        std::vector<double> doubles(15, -777);
        std::vector<std::int32_t> integers(15, -777);
        auto given = logits.given<CollapsarCudaLogits>();
        given.targets = targets.data();
        given.temperature = 0.7;
        CollapsarCudaLogitStats out{};
        out.size = sizeof out;
        out.logsumexp = doubles.data();
        out.entropy = doubles.data() + 5;
        out.target_logprob = doubles.data() + 10;
        out.argmax = integers.data();
        out.rank_above = integers.data() + 5;
        out.rank_equal = integers.data() + 10;
        device->expectOk((*device)->logit_stats(device->get(), &given, &out, nullptr, &device->error));
        doubles.insert(doubles.end(), integers.begin(), integers.end());
        return doubles;
      });
    }
    for (const std::int64_t columns : {20, 200, 3000, 20000}) {
      PlacedMatrix scores(dtype, 9, columns, kOdd);
      fill(scores, [&](std::int64_t, std::int64_t) { return -120 + 5 * numbers.bell(); });
      const RowLabels labels = labelsFor(9, columns, columns == 200, numbers);
      checkRepeats("score_stats", [&] {
        RowStatsFields fields(9, 8, false);
        const auto given = scores.given<CollapsarCudaScores>();
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(),
                                               labels.lengths.data(),
                                               labels.signature.empty() ? nullptr : labels.signature.data()};
        device->expectOk(
            (*device)->score_stats(device->get(), &given, &rowLabels, &fields.stats, nullptr, &device->error));
        std::vector<double> all;
        addNumbers(all, fields);
        return all;
      });
    }
    for (const std::int64_t longest : {30, 700, 9000}) {
      PlacedTokens tokens(dtype, 6, 7, longest, false, 0, false, numbers);
      const CollapsarCudaTokens given = tokens.given();
      const auto into = [](std::vector<double>& sums) {
        CollapsarCudaTokenSums out{};
        out.size = sizeof out;
        out.sums = sums.data();
        out.columns = 6;
        return out;
      };
      checkRepeats("sum_tokens", [&] {
        std::vector<double> sums(42, -777);
        CollapsarCudaTokenSums out = into(sums);
        device->expectOk((*device)->sum_tokens(device->get(), &given, &out, nullptr, &device->error));
        return sums;
      });
      const RowLabels labels = labelsFor(7, 6, false, numbers);
      checkRepeats("tokens_to_row_stats", [&] {
        RowStatsFields fields(7, 6, false);
        std::vector<double> all(42, -777);
        CollapsarCudaTokenSums out = into(all);
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(), nullptr, nullptr};
        device->expectOk((*device)->tokens_to_row_stats(device->get(), &given, &rowLabels, &fields.stats, &out, nullptr,
                                                        &device->error));
        addNumbers(all, fields);
        return all;
      });
    }
  }
}

}  // namespace collapsar::test
