#include "row_stats.h"

#include <algorithm>
#include <cmath>

#include "elements.h"
#include "moments.h"
#include "through_rows.h"

namespace fake_cuda {

Status checkRowStats(const CollapsarCudaDevice* device, const CollapsarCudaRowStats* out, Error* error) {
  return checkPlace(device,
                    {out->matched_seq, out->matched_token, out->marginal_seq, out->marginal_token,
                     out->loo_marginal_seq, out->loo_marginal_token, out->posterior_entropy, out->argmax,
                     out->rank_above, out->rank_equal, out->hit_rank, out->top_columns},
                    out->on_device != 0, error);
}

void statsOfRow(const std::vector<double>& scores, std::int64_t row, const CollapsarCudaRowLabels* labels,
                std::int64_t length, const CollapsarCudaRowStats* out) {
  const std::size_t columns = scores.size();
  const std::size_t own = static_cast<std::size_t>(labels->own[row]);
  const double tokens = static_cast<double>(std::max<std::int64_t>(length, 1));
  std::vector<double> perToken(columns), others, othersPerToken;
  for (std::size_t p = 0; p < columns; ++p) {
    perToken[p] = scores[p] / tokens;
    const bool same = labels->signature == nullptr ? p == own : labels->signature[p] == labels->signature[own];
    if (same) continue;
    others.push_back(scores[p]);
    othersPerToken.push_back(perToken[p]);
  }
  const auto marginal = [](const std::vector<double>& values) {
    return values.empty() ? kNaN : momentsOf(values).logsumexp - std::log(static_cast<double>(values.size()));
  };
  const Moments moments = momentsOf(scores);
  std::int32_t above = 0, equal = 0;
  for (const double score : scores) {
    above += score > scores[own];
    equal += score == scores[own];
  }
  put(out->matched_seq, row, scores[own]);
  put(out->matched_token, row, perToken[own]);
  put(out->marginal_seq, row, marginal(scores));
  put(out->marginal_token, row, marginal(perToken));
  put(out->loo_marginal_seq, row, marginal(others));
  put(out->loo_marginal_token, row, marginal(othersPerToken));
  put(out->posterior_entropy, row, moments.entropy);
  put(out->argmax, row, moments.argmax);
  put(out->rank_above, row, above);
  put(out->rank_equal, row, equal);
  std::vector<std::int32_t> order(columns);
  for (std::size_t p = 0; p < columns; ++p) order[p] = static_cast<std::int32_t>(p);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return std::isnan(x) ? !std::isnan(y) : x > y;
  });
  std::int32_t rank = 0;
  while (labels->signature == nullptr
             ? order[static_cast<std::size_t>(rank)] != labels->own[row]
             : labels->signature[order[static_cast<std::size_t>(rank)]] != labels->signature[own]) {
    ++rank;
  }
  put(out->hit_rank, row, rank);
  for (std::int32_t k = 0; k < out->top_k; ++k) {
    put(out->top_columns, row * out->top_k + k, order[static_cast<std::size_t>(k)]);
  }
}

}  // namespace fake_cuda
