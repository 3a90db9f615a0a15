#include <cmath>
#include <vector>

#include "moments.h"
#include "operations.h"
#include "through_rows.h"

namespace fake_cuda {
namespace {

double meanOf(const std::vector<double>& values, const std::uint8_t* mask, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    if (mask != nullptr && mask[row] == 0) continue;
    sum += values[static_cast<std::size_t>(row)];
    ++count;
  }
  return count == 0 ? kNaN : sum / static_cast<double>(count);
}

}  // namespace

Status logitStats(CollapsarCudaDevice* device, const CollapsarCudaLogits* logits, const CollapsarCudaLogitStats* out,
                  const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(logits, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("logit_stats", device, control, error));
  COLLAPSAR_FAKE_TRY(checkPlace(
      device, {out->logsumexp, out->entropy, out->target_logprob, out->argmax, out->rank_above, out->rank_equal},
      out->on_device != 0, error));
  COLLAPSAR_FAKE_TRY(checkPlace(device, {out->mean_entropy, out->mean_target_logprob}, false, error));
  const std::size_t rows = static_cast<std::size_t>(logits->rows);
  std::vector<double> entropies(rows, kNaN), targets(rows, kNaN), values(static_cast<std::size_t>(logits->columns));
  const auto row = [&](std::int64_t n) {
    Moments moments{kNaN, kNaN, -1};
    double targetLogprob = kNaN;
    std::int32_t above = -1, equal = -1;
    if (logits->mask == nullptr || logits->mask[n] != 0) {
      for (std::int64_t v = 0; v < logits->columns; ++v) {
        values[static_cast<std::size_t>(v)] =
            valueAt(logits->data, logits->dtype, n * logits->row_stride + v * logits->column_stride) /
            logits->temperature;
      }
      moments = momentsOf(values);
      if (logits->targets != nullptr) {
        const double target = values[static_cast<std::size_t>(logits->targets[n])];
        targetLogprob = std::isfinite(moments.logsumexp) ? target - moments.logsumexp : kNaN;
        above = equal = 0;
        for (const double value : values) {
          above += value > target;
          equal += value == target;
        }
      }
    }
    put(out->logsumexp, n, moments.logsumexp);
    put(out->entropy, n, moments.entropy);
    put(out->target_logprob, n, targetLogprob);
    put(out->argmax, n, moments.argmax);
    put(out->rank_above, n, above);
    put(out->rank_equal, n, equal);
    entropies[static_cast<std::size_t>(n)] = moments.entropy;
    targets[static_cast<std::size_t>(n)] = targetLogprob;
  };
  COLLAPSAR_FAKE_TRY(throughRows(device, logits->data_on_device != 0, logits->rows, logits->columns, logits->dtype,
                                 control, error, row));
  for (std::int64_t i = 0; i < logits->sequences; ++i) {
    put(out->mean_entropy, i, meanOf(entropies, logits->mask, logits->begins[i], logits->ends[i]));
    put(out->mean_target_logprob, i, meanOf(targets, logits->mask, logits->begins[i], logits->ends[i]));
  }
  return COLLAPSAR_CUDA_OK;
}

}  // namespace fake_cuda
