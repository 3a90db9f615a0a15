// Engine.scoreStats: [R,P] scores -> one array a field, all in one block of memory.
#include <algorithm>

#include "engine/score_stats.h"
#include "node/arguments/row_labels.h"
#include "node/results/row_stats.h"
#include "operations.h"

namespace collapsar {
namespace {

class ScoreStatsJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    if (device == nullptr) return scoreStats(scores, labels.rows(), out.allocate(), pool, control);
    if (!out.onDevice) return onDevice(out.allocate());
    return kept.keepIfDone(*device, [&] { return onDevice(out.allocateOn(*device, kept)); });
  }

  Napi::Value result(Napi::Env env) override { return out.value(env); }

  ScoreMatrix scores{};
  RowLabels labels;
  RowStatsOutput out;

 private:
  Outcome onDevice(const RowStats& stats) {
    return device->scoreStats(scores, dataOnDevice, labels.rows(), stats, out.onDevice, *this);
  }

  DeviceResults kept;
};

}  // namespace

// scoreStats(settle, data: TensorData | DeviceMemory, dtype: 0|1|2|3, protected: boolean,
//            rows, columns, rowStride, columnStride: number,
//            own, lengths: IntegerArray, signatures: IntegerArray | undefined, topK: number,
//            outOnDevice: boolean): number
std::unique_ptr<Job> scoreStatsJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<ScoreStatsJob>();
  ScoreMatrix& scores = job->scores;
  const MatrixArgument matrix(arguments, "sums", scores);
  expectMatrixShape(env, "sums", scores.rows, scores.columns);
  job->labels = RowLabels::take(arguments, "options.", scores.rows, scores.columns);
  job->out.rows = scores.rows;
  job->out.columns = scores.columns;
  job->out.topK = static_cast<int>(std::min<std::int64_t>(arguments.integer(), scores.columns));
  job->out.onDevice = takeOutOnDevice(*job, arguments);
  matrix.hold(*job, scores);
  if (job->out.bytes() > maxBufferBytes)
    rejectArgument(env, "sums", "has more rows than one ArrayBuffer has place for: pass it in parts");
  return job;
}

}  // namespace collapsar
