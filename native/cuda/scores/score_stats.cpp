// scoreStats on the device, and its second half of the fused road from tokens to row statistics.
#include "score_stats.h"

#include <algorithm>
#include <cmath>

#include "cuda/argument_checks.h"
#include "cuda/label_block.h"
#include "cuda/operations.h"
#include "cuda/portions.h"
#include "cuda/rows/blocks.h"
#include "engine/columns_by_signature.h"
#include "rank_columns.h"
#include "short_score_rows.h"
#include "top_columns.h"

namespace collapsar::cuda {

EquivalentColumns::EquivalentColumns(CollapsarCudaDevice& device, const std::int32_t* signature, std::int64_t columns) {
  if (signature == nullptr || columns == 0) return;
  const ColumnsBySignature lists(signature, columns);
  const std::int64_t bytes = columns * static_cast<std::int64_t>(sizeof(std::int32_t));
  auto* const memory = static_cast<std::int32_t*>(device.space(Space::Scratch, kScratchBytes + 3 * bytes + 64));
  std::int32_t* const at = memory + kScratchBytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  device.upload(at, signature, bytes, device.stream());
  device.upload(at + columns, lists.columns().data(), bytes, device.stream());
  device.upload(at + 2 * columns, lists.starts().data(), bytes + static_cast<std::int64_t>(sizeof(std::int32_t)),
                device.stream());
  columns_ = {at, at + 2 * columns, at + columns};
}

RowStatsFields::RowStatsFields(const CollapsarCudaRowStats& out) : out_(out) {}

ScoreOutputs RowStatsFields::place(CollapsarCudaDevice& device, std::int64_t first, std::int64_t count) {
  results_ = {};
  ScoreOutputs placed{};
  const auto put = [&](auto* wanted, auto** at, std::int64_t perRow) {
    if (out_.on_device == 0) {
      results_.add(wanted != nullptr ? wanted + first * perRow : nullptr, at, count * perRow);
    } else {
      *at = wanted != nullptr ? wanted + first * perRow : nullptr;
    }
  };
  put(out_.matched_seq, &placed.matchedSeq, 1);
  put(out_.matched_token, &placed.matchedToken, 1);
  put(out_.marginal_seq, &placed.marginalSeq, 1);
  put(out_.marginal_token, &placed.marginalToken, 1);
  put(out_.loo_marginal_seq, &placed.looMarginalSeq, 1);
  put(out_.loo_marginal_token, &placed.looMarginalToken, 1);
  put(out_.posterior_entropy, &placed.posteriorEntropy, 1);
  put(out_.argmax, &placed.argmax, 1);
  put(out_.rank_above, &placed.rankAbove, 1);
  put(out_.rank_equal, &placed.rankEqual, 1);
  put(out_.hit_rank, &placed.hitRank, 1);
  placed.topK = out_.top_columns != nullptr ? out_.top_k : 0;
  put(placed.topK > 0 ? out_.top_columns : nullptr, &placed.topColumns, placed.topK);
  results_.allocate(device);
  return placed;
}

void startScoreRows(CollapsarCudaDevice& device, ScoreRowsJob job, std::int64_t rows) {
  job.logColumns = std::log(job.columns);
  job.logAllButOne = job.columns > 1 ? std::log(job.columns - 1) : undefined();
  const auto startOthers = [&](void* workspace) {
    check(launchRankColumns(job, device.multiprocessors(), device.stream()), "running kernels");
    check(launchTopColumns(job, workspace, device.stream()), "running kernels");
  };
  if (areShortScoreRows(job)) {
    job.cut.rows = static_cast<std::int32_t>(rows);
    check(launchShortScoreRows(job, device.multiprocessors(), device.stream()), "running kernels");
    return startOthers(nullptr);  // no short row is cut
  }
  const std::int64_t size = elementBytes(job.dtype);
  job.lanes = scoreLanes(rows, job.columns, size, device.multiprocessors());
  const std::int64_t groups = scoreGroupsAtOnce(job.lanes, size, device.multiprocessors());
  job.cut = cutRows(rows, job.columns, size, groups);
  // Only blocks share a row piece by piece.
  if (job.lanes != kWholeBlockLanes) {
    job.cut.wholeRows = job.cut.rows;
    job.cut.pieces = 1;
  }
  const std::int64_t bytes = job.cut.cutUnits() * static_cast<std::int64_t>(sizeof(ScorePiece));
  void* const workspace = device.space(Space::Pieces, std::max(bytes, topColumnsBytes(job, rows)));
  job.pieces = static_cast<ScorePiece*>(workspace);
  check(launchScoreRows(job, device.multiprocessors(), device.stream()), "running kernels");
  startOthers(workspace);  // the score kernels, which are before them on the stream, no longer need it
}

void scoreStats(CollapsarCudaDevice& device, const CollapsarCudaScores& scores, const CollapsarCudaRowLabels& labels,
                const CollapsarCudaRowStats& out, const CollapsarCudaControl* control) {
  expectVersion(scores, "scores");
  expectVersion(labels, "labels");
  expectVersion(out, "out");
  expect(scores.rows >= 0 && scores.columns >= 0 && scores.columns <= INT32_MAX,
         "scores: rows or columns out of range");
  expect(scores.rows == 0 || scores.columns == 0 || scores.data != nullptr, "scores.data: null");
  expectRowStats(labels, out, scores.rows, scores.columns);
  const std::int64_t size = elementBytes(scores.dtype);
  if (scores.data_on_device != 0) expectAligned(scores.data, size);
  Call call(device, control, scores.rows * scores.columns);
  if (scores.columns == 0) return call.finish();

  const EquivalentColumns equivalent(device, labels.signature, scores.columns);
  const Matrix matrix{scores.data,       scores.data_on_device != 0, size, scores.rows, scores.columns,
                      scores.row_stride, scores.column_stride};
  RowStatsFields fields(out);
  for (std::int64_t first = 0; first < scores.rows; first += kMostRows) {
    const std::int64_t count = std::min(kMostRows, scores.rows - first);
    LabelBlock block;
    const std::int64_t ownAt = block.add(labels.own + first, count);
    const std::int64_t lengthsAt = block.add(labels.lengths + first, count);
    block.upload(device);
    ScoreRowsJob job{};
    job.dtype = scores.dtype;
    job.columns = static_cast<std::int32_t>(scores.columns);
    job.own = block.at<std::int32_t>(ownAt);
    job.lengths = block.at<std::int64_t>(lengthsAt);
    job.equivalent = equivalent.columns();
    job.out = fields.place(device, first, count);
    forRowBlocks(device, call, matrix, first, count, nullptr, nullptr, [&](const RowBlock& rows) {
      job.data = rows.data;
      job.rowStride = rows.rowStride;
      job.firstRow = static_cast<std::int32_t>(rows.begin);
      job.gathered = rows.gathered;
      startScoreRows(device, job, rows.end - rows.begin);
    });
    fields.fetch(device);
  }
  call.finish();
}

}  // namespace collapsar::cuda
