// The section "fused": tokensToRowStats, the sums and the statistics of their rows in one call.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda_check.h"
#include "gates.h"
#include "placed_tokens.h"
#include "row_stats_fields.h"
#include "test/check.h"
#include "test/random_numbers.h"

namespace collapsar::test {

void fusedChecks() {
  Numbers numbers(options.seed * 1000 + 4);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t prompts : {1, 2, 9, 40, 600}) {
      for (const bool host : {false, true}) {
        PlacedTokens tokens(dtype, prompts, 21, 30, prompts % 2 == 0, static_cast<int>(prompts % 3), host, numbers);
        if (prompts == 9) tokens.elements->set(tokens.at(4, 0, 1), kNaN);
        RowLabels labels = labelsFor(21, prompts, prompts % 2 == 0, numbers);
        labels.lengths = tokens.lengths;
        RowStatsFields fields(21, static_cast<int>(std::min<std::int64_t>(prompts, 8)), host);
        std::vector<double> sums(static_cast<std::size_t>(21 * prompts), -777);
        CollapsarCudaTokenSums out{};
        out.size = sizeof out;
        out.sums = sums.data();
        out.columns = prompts;
        const CollapsarCudaTokens given = tokens.given();
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(), nullptr,
                                               labels.signature.empty() ? nullptr : labels.signature.data()};
        const CollapsarCudaStatus status = (*device)->tokens_to_row_stats(device->get(), &given, &rowLabels,
                                                                          &fields.stats, &out, nullptr, &device->error);
        CHECK_EQUAL(static_cast<int>(status), 0, device->error.message);
        if (status != COLLAPSAR_CUDA_OK) continue;
        settle(fields);
        for (std::int64_t r = 0; r < 21; r++) {
          const std::vector<double> row(sums.begin() + r * prompts, sums.begin() + (r + 1) * prompts);
          for (std::int64_t p = 0; p < prompts; p++) {
            const double expected = static_cast<double>(tokens.sum(p, r));
            CHECK_NEAR(row[static_cast<std::size_t>(p)], expected, 4 * ulp(std::max(1.0, std::abs(expected))));
          }
          compareRow(row, r, labels, fields, true, "fused, row ");
        }
        CHECK_EQUAL(out.invalid_prompt, prompts == 9 ? 4 : -1);
      }
    }
  }
}

}  // namespace collapsar::test
