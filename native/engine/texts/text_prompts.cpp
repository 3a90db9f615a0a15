// One prompt at a time, whichever thread takes it: each is summed over its own rows alone, in their order.
#include "text_prompts.h"

#include <algorithm>

#include "engine/half.h"
#include "engine/simd/kernel_table.h"

namespace collapsar {

namespace {

// One worker's scratch: [P], as long as whole vectors.
struct ShareScratch {
  std::vector<double> share, excess, posterior, nats;

  explicit ShareScratch(std::int64_t prompts) {
    const auto padded = static_cast<std::size_t>((prompts + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles);
    for (auto* vector : {&share, &excess, &posterior, &nats}) vector->resize(padded);
  }
};

// Adds q(p) and ln(P q(p)) of one row: q = (1 - epsilon) softmax(S / temperature) + epsilon / P.
void addShares(const double* scores, std::int64_t prompts, const TextPredictor& by, double weight,
               ShareScratch& scratch) {
  const double most = *std::max_element(scores, scores + prompts);
  const double temperature = static_cast<double>(std::int64_t{1} << by.temperature);
  double* const share = scratch.share.data();
  double* const excess = scratch.excess.data();
  for (std::int64_t p = 0; p < prompts; p++) share[p] = (scores[p] - most) / temperature;
  kernels().exponentials(share, prompts, share);
  double sum = 0;
  for (std::int64_t p = 0; p < prompts; p++) sum += share[p];
  const auto count = static_cast<double>(prompts);
  for (std::int64_t p = 0; p < prompts; p++) excess[p] = (1 - by.epsilon) * (share[p] / sum) * count + by.epsilon;
  for (std::int64_t p = 0; p < prompts; p++) scratch.posterior[p] += weight * (excess[p] / count);
  kernels().logarithms(excess, prompts, excess);
  for (std::int64_t p = 0; p < prompts; p++) scratch.nats[p] += weight * excess[p];
}

}  // namespace

Outcome textPrompts(const UsedRows& rows, const std::int32_t* groups, const RowScores& scores, const TextBound& bound,
                    TextPrompts& out, ThreadPool& pool, JobControl& control) {
  const auto size = static_cast<std::size_t>(rows.prompts);
  const auto prompts = static_cast<double>(rows.prompts);
  for (std::size_t j = 0; j < size; j++) {
    out.group.push_back(groups[rows.row[rows.firstRow[j]]]);
    out.rows.push_back(rows.firstRow[j + 1] - rows.firstRow[j]);
    double mi = 0, retrieval = 0;
    for (std::int64_t row = rows.firstRow[j]; row < rows.firstRow[j + 1]; row++) {
      // All of a prompt's weights add up to 1 / P.
      const double weight = rows.weight[row] * prompts;
      mi += weight * bound.values[row];
      retrieval += weight * retrievedShare(scores, row, 0);
    }
    out.mi.push_back(mi);
    out.retrieval.push_back(retrieval);
  }
  if (scores.all.empty()) return Outcome::Done;
  out.posterior.resize(size * size);
  out.nats.resize(size * size);
  std::vector<ShareScratch> scratch(static_cast<std::size_t>(pool.threads()), ShareScratch(rows.prompts));
  return pool.run(rows.prompts, control, [&](std::int64_t j, int worker) {
    ShareScratch& own = scratch[static_cast<std::size_t>(worker)];
    std::fill(own.posterior.begin(), own.posterior.end(), 0.0);
    std::fill(own.nats.begin(), own.nats.end(), 0.0);
    for (std::int64_t row = rows.firstRow[j]; row < rows.firstRow[j + 1]; row++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      addShares(scores.all.data() + row * rows.prompts, rows.prompts, bound.predictorOf(rows, row),
                rows.weight[row] * prompts, own);
    }
    for (std::size_t p = 0; p < size; p++) {
      const std::size_t cell = static_cast<std::size_t>(j) * size + p;
      out.posterior[cell] = static_cast<std::uint8_t>(std::min(255.0, own.posterior[p] * 255.0 + 0.5));
      out.nats[cell] = float16Of(own.nats[p]);
    }
  });
}

}  // namespace collapsar
