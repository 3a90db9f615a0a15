// Engine.gatherScores: picked rows and columns of a score matrix -> dense float64.
#include <string>
#include <utility>
#include <vector>

#include "engine/gather_scores.h"
#include "node/arguments/row_labels.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class GatherScoresJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    memory = MemoryBlock::allocate(static_cast<std::size_t>(outRows * outColumns) * sizeof(double));
    return gatherScores(scores, pickRows ? rows.data() : nullptr, outRows, pickColumns ? columns.data() : nullptr,
                        outColumns, memory->at<double>(0), pool, control);
  }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"data", float64View(bufferOver(env, std::move(memory)), 0, outRows * outColumns)},
                          {"rows", numberOf(env, outRows)},
                          {"columns", numberOf(env, outColumns)}});
  }

  ScoreMatrix scores{};
  bool pickRows = false, pickColumns = false;
  std::vector<std::int32_t> rows, columns;
  std::int64_t outRows = 0, outColumns = 0;

 private:
  std::shared_ptr<MemoryBlock> memory;
};

}  // namespace

// gatherScores(settle, data: TensorData, dtype: 0|1|2|3, protected: boolean,
//              rows, columns, rowStride, columnStride: number,
//              rows, columns: IntegerArray | undefined): number    undefined: all
std::unique_ptr<Job> gatherScoresJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<GatherScoresJob>();
  ScoreMatrix& scores = job->scores;
  const MatrixArgument matrix(arguments, "sums", scores);
  expectMatrixShape(env, "sums", scores.rows, scores.columns);
  const Napi::Value rowIndex = arguments.next();
  const Napi::Value columnIndex = arguments.next();
  job->outRows = scores.rows;
  job->outColumns = scores.columns;
  if ((job->pickRows = !rowIndex.IsUndefined())) {
    // The index has 32 bits; a matrix may have more rows if none of those beyond is picked.
    const std::int64_t last = std::min<std::int64_t>(scores.rows - 1, INT32_MAX);
    job->rows = integers32(rowIndex, "options.rows", 0, static_cast<std::int32_t>(last));
    job->outRows = static_cast<std::int64_t>(job->rows.size());
  }
  if ((job->pickColumns = !columnIndex.IsUndefined())) {
    job->columns = integers32(columnIndex, "options.columns", 0, static_cast<std::int32_t>(scores.columns - 1));
    job->outColumns = static_cast<std::int64_t>(job->columns.size());
  }
  if (job->outRows > 0 && job->outColumns == 0) rejectArgument(env, "options.columns", "picks no column");
  matrix.hold(*job, scores);
  if (static_cast<__int128>(job->outRows) * job->outColumns * 8 > static_cast<__int128>(maxBufferBytes)) {
    rejectArgument(env, "sums",
                   "a result of " + std::to_string(job->outRows) + " x " + std::to_string(job->outColumns) +
                       " is more than one ArrayBuffer can hold");
  }
  return job;
}

}  // namespace collapsar
