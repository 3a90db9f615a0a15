// logitStats on the device: which rows are read, in what blocks; results brought back; means over sequences, of exact
// sums, on the host, where they are the CPU's to the bit for equal values.
#include <algorithm>
#include <tuple>
#include <vector>

#include "cuda/argument_checks.h"
#include "cuda/label_block.h"
#include "cuda/operations.h"
#include "cuda/portions.h"
#include "cuda/result_block.h"
#include "cuda/rows/blocks.h"
#include "engine/sequence_means.h"
#include "logit_rows.h"

namespace collapsar::cuda {

namespace {

void expectLogits(const CollapsarCudaLogits& logits, const CollapsarCudaLogitStats& out) {
  expectVersion(logits, "logits");
  expectVersion(out, "out");
  expect(logits.rows >= 0 && logits.columns >= 0 && logits.columns <= INT32_MAX,
         "logits: rows or columns out of range");
  expect(logits.rows == 0 || logits.columns == 0 || logits.data != nullptr, "logits.data: null");
  expect(logits.temperature >= 1e-18 && logits.temperature <= 1e18, "logits.temperature: not in [1e-18, 1e18]");
  const bool ranks = out.target_logprob != nullptr || out.rank_above != nullptr || out.rank_equal != nullptr ||
                     out.mean_target_logprob != nullptr;
  expect(logits.rows == 0 || logits.targets != nullptr || !ranks, "targets: null, but results need them");
  for (std::int64_t row = 0; logits.targets != nullptr && row < logits.rows; row++) {
    const bool read = logits.mask == nullptr || logits.mask[row] != 0;
    expect(!read || logits.columns == 0 || (logits.targets[row] >= 0 && logits.targets[row] < logits.columns),
           "targets: an entry is not a column");
  }
  for (std::int64_t i = 0; i < logits.sequences; i++) {
    expect(logits.begins[i] >= 0 && logits.begins[i] <= logits.ends[i] && logits.ends[i] <= logits.rows,
           "begins, ends: a sequence is not in the rows");
  }
}

// Rows [first, first + count) of all fields, from the device's memory or to it.
class Fields {
 public:
  Fields(const CollapsarCudaLogitStats& out, double* entropy, double* targetLogprob)
      : out_(out), entropy_(entropy), targetLogprob_(targetLogprob) {}

  LogitOutputs place(CollapsarCudaDevice& device, std::int64_t first, std::int64_t count) {
    results_ = {};
    LogitOutputs placed{};
    put(out_.logsumexp, static_cast<double*>(nullptr), &placed.logsumexp, first, count);
    put(out_.entropy, entropy_, &placed.entropy, first, count);
    put(out_.target_logprob, targetLogprob_, &placed.targetLogprob, first, count);
    put(out_.argmax, static_cast<std::int32_t*>(nullptr), &placed.argmax, first, count);
    put(out_.rank_above, static_cast<std::int32_t*>(nullptr), &placed.rankAbove, first, count);
    put(out_.rank_equal, static_cast<std::int32_t*>(nullptr), &placed.rankEqual, first, count);
    results_.allocate(device);
    return placed;
  }
  void fetch(CollapsarCudaDevice& device, const LogitOutputs& placed, std::int64_t first, std::int64_t count) {
    results_.download(device);
    // What stays on the device but is needed for means.
    if (out_.on_device == 0) return;
    for (const auto& [from, to, given] : {std::tuple{placed.entropy, entropy_, out_.entropy},
                                          std::tuple{placed.targetLogprob, targetLogprob_, out_.target_logprob}}) {
      if (to != nullptr && given != nullptr) {
        device.download(to + first, from, count * static_cast<std::int64_t>(sizeof(double)), device.stream());
      }
    }
  }

 private:
  // `wanted` by the caller; `kept` for the means, on the host.
  template <class T>
  void put(T* wanted, T* kept, T** placed, std::int64_t first, std::int64_t count) {
    if (out_.on_device != 0 && wanted != nullptr) {
      *placed = wanted + first;
      return;
    }
    T* const host = wanted != nullptr ? wanted : kept;
    results_.add(host != nullptr ? host + first : nullptr, placed, count);
  }

  const CollapsarCudaLogitStats& out_;
  double *entropy_, *targetLogprob_;
  ResultBlock results_;
};

}  // namespace

void logitStats(CollapsarCudaDevice& device, const CollapsarCudaLogits& logits, const CollapsarCudaLogitStats& out,
                const CollapsarCudaControl* control) {
  expectLogits(logits, out);
  const std::int64_t size = elementBytes(logits.dtype);
  if (logits.data_on_device != 0) expectAligned(logits.data, size);
  Call call(device, control, logits.rows * logits.columns);

  // The rows' values that means are made of, where the caller has no host memory for them.
  std::vector<double> entropies, targetLogprobs;
  const auto hostValues = [&](const double* mean, double* given, std::vector<double>& kept) -> double* {
    if (mean == nullptr) return nullptr;
    if (out.on_device == 0 && given != nullptr) return given;
    kept.resize(static_cast<std::size_t>(logits.rows));
    return kept.data();
  };
  double* const entropy = hostValues(out.mean_entropy, out.entropy, entropies);
  double* const targetLogprob = hostValues(out.mean_target_logprob, out.target_logprob, targetLogprobs);
  Fields fields(out, entropy, targetLogprob);

  const Matrix matrix{logits.data,       logits.data_on_device != 0, size, logits.rows, logits.columns,
                      logits.row_stride, logits.column_stride};
  for (std::int64_t first = 0; first < logits.rows; first += kMostRows) {
    const std::int64_t count = std::min(kMostRows, logits.rows - first);
    const std::uint8_t* const mask = logits.mask != nullptr ? logits.mask + first : nullptr;
    std::vector<std::int32_t> read;  // numbers of rows that are
    for (std::int64_t i = 0; mask != nullptr && i < count; i++) {
      if (mask[i] != 0) read.push_back(static_cast<std::int32_t>(i));
    }
    LabelBlock labels;
    const std::int64_t listAt = labels.add(read.data(), static_cast<std::int64_t>(read.size()));
    const std::int64_t targetsAt = logits.targets != nullptr ? labels.add(logits.targets + first, count) : -1;
    const std::int64_t maskAt = mask != nullptr ? labels.add(mask, count) : -1;
    labels.upload(device);
    const LogitOutputs placed = fields.place(device, first, count);
    if (mask != nullptr) {
      check(launchMaskedLogits(labels.at<std::uint8_t>(maskAt), count, placed, device.stream()), "running kernels");
    }
    if (logits.columns == 0) {
      check(launchEmptyLogits(mask != nullptr ? labels.at<std::uint8_t>(maskAt) : nullptr, count, placed,
                              device.stream()),
            "running kernels");
      fields.fetch(device, placed, first, count);
      continue;
    }

    LogitRowsJob job{};
    job.dtype = logits.dtype;
    job.columns = static_cast<std::int32_t>(logits.columns);
    job.temperature = logits.temperature;
    job.ranked = out.rank_above != nullptr || out.rank_equal != nullptr;
    job.located = out.argmax != nullptr;
    const std::int32_t* const list = mask != nullptr ? labels.at<std::int32_t>(listAt) : nullptr;
    forRowBlocks(device, call, matrix, first, count, mask != nullptr ? &read : nullptr, list,
                 [&](const RowBlock& block) {
                   job.data = block.data;
                   job.rowStride = block.rowStride;
                   job.gathered = block.gathered;
                   job.firstListed = static_cast<std::int32_t>(block.begin);
                   job.rowIndex = list;
                   job.targets = targetsAt >= 0 ? labels.at<std::int32_t>(targetsAt) : nullptr;
                   job.out = placed;
                   job.cut = cutRows(block.end - block.begin, logits.columns, size,
                                     logitGroupsAtOnce(logits.columns, size, device.multiprocessors()));
                   job.pieces = static_cast<LogitPiece*>(
                       device.space(Space::Pieces, job.cut.cutUnits() * static_cast<std::int64_t>(sizeof(LogitPiece))));
                   check(launchLogitRows(job, device.stream()), "running kernels");
                 });
    fields.fetch(device, placed, first, count);
  }
  call.finish();
  const auto means = [&](const double* values, double* of) {
    sequenceMeans(logits.sequences, logits.begins, logits.ends, logits.mask, values, of);
  };
  means(entropy, out.mean_entropy);
  means(targetLogprob, out.mean_target_logprob);
}

}  // namespace collapsar::cuda
