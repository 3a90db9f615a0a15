// Engine.scoreStats: [R,P] scores -> one array a field, all in one block of memory.
#include <string>
#include <utility>

#include "engine/score_stats.h"
#include "operations.h"
#include "result_value.h"
#include "row_labels.h"

namespace collapsar {
namespace {

class ScoreStatsJob : public Job {
 public:
  // Seven float64 arrays, then argmax, rankAbove, rankEqual and topColumns, each [rows] ([rows, topK] the last).
  std::size_t doublesAt(int field) const { return rows() * 8 * field; }
  std::size_t integersAt(int field) const { return rows() * (8 * 7 + 4 * field); }
  std::size_t bytes() const { return rows() * (8 * 7 + 4 * (3 + topK)); }

  Outcome run(ThreadPool& pool) override {
    memory = MemoryBlock::allocate(bytes());
    RowStats stats;
    double** const doubles[] = {&stats.matchedSeq,      &stats.matchedToken,   &stats.marginalSeq,
                                &stats.marginalToken,   &stats.looMarginalSeq, &stats.looMarginalToken,
                                &stats.posteriorEntropy};
    for (int field = 0; field < 7; ++field) *doubles[field] = memory->at<double>(doublesAt(field));
    std::int32_t** const integers[] = {&stats.argmax, &stats.rankAbove, &stats.rankEqual, &stats.topColumns};
    for (int field = 0; field < 4; ++field) *integers[field] = memory->at<std::int32_t>(integersAt(field));
    stats.topK = topK;
    return scoreStats(scores, labels.rows(), stats, pool, control);
  }

  Napi::Value result(Napi::Env env) override {
    const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory));
    const auto doubles = [&](int field) { return float64View(buffer, doublesAt(field), scores.rows); };
    const auto integers = [&](int field, std::int64_t perRow) {
      return int32View(buffer, integersAt(field), scores.rows * perRow);
    };
    return objectOf(env, {{"rows", Napi::Number::New(env, static_cast<double>(scores.rows))},
                          {"columns", Napi::Number::New(env, static_cast<double>(scores.columns))},
                          {"topK", Napi::Number::New(env, topK)},
                          {"matchedSeq", doubles(0)},
                          {"matchedToken", doubles(1)},
                          {"marginalSeq", doubles(2)},
                          {"marginalToken", doubles(3)},
                          {"looMarginalSeq", doubles(4)},
                          {"looMarginalToken", doubles(5)},
                          {"posteriorEntropy", doubles(6)},
                          {"argmax", integers(0, 1)},
                          {"rankAbove", integers(1, 1)},
                          {"rankEqual", integers(2, 1)},
                          {"topColumns", integers(3, topK)}});
  }

  ScoreMatrix scores{};
  RowLabels labels;
  int topK = 0;

 private:
  std::size_t rows() const { return static_cast<std::size_t>(scores.rows); }
  std::shared_ptr<MemoryBlock> memory;
};

}  // namespace

// scoreStats(settle, data: TensorData, dtype: 0|1|2|3, protected: boolean,
//            rows, columns, rowStride, columnStride: number,
//            own, lengths: IntegerArray, signatures: IntegerArray | undefined, topK: number): number
std::unique_ptr<Job> scoreStatsJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<ScoreStatsJob>();
  ScoreMatrix& scores = job->scores;
  const MatrixArgument matrix(arguments, "sums", scores);
  expectScoreShape(env, "sums", scores.rows, scores.columns);
  job->labels = RowLabels::take(arguments, "options.", scores.rows, scores.columns);
  job->topK = static_cast<int>(std::min<std::int64_t>(arguments.integer(), scores.columns));
  matrix.hold(*job, scores);
  if (job->bytes() > maxBufferBytes) rejectArgument(env, "sums", "has more rows than one ArrayBuffer has place for");
  return job;
}

}  // namespace collapsar
