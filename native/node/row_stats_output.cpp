#include "row_stats_output.h"

#include <utility>

#include "result_value.h"

namespace collapsar {

RowStats RowStatsOutput::allocate() {
  memory_ = MemoryBlock::allocate(bytes());
  RowStats stats;
  double** const doubles[] = {&stats.matchedSeq,      &stats.matchedToken,   &stats.marginalSeq,
                              &stats.marginalToken,   &stats.looMarginalSeq, &stats.looMarginalToken,
                              &stats.posteriorEntropy};
  for (int field = 0; field < 7; ++field) *doubles[field] = memory_->at<double>(doublesAt(field));
  std::int32_t** const integers[] = {&stats.argmax, &stats.rankAbove, &stats.rankEqual, &stats.topColumns};
  for (int field = 0; field < 4; ++field) *integers[field] = memory_->at<std::int32_t>(integersAt(field));
  stats.topK = topK;
  return stats;
}

Napi::Object RowStatsOutput::value(Napi::Env env) {
  const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory_));
  const auto doubles = [&](int field) { return float64View(buffer, doublesAt(field), rows); };
  const auto integers = [&](int field, std::int64_t perRow) {
    return int32View(buffer, integersAt(field), rows * perRow);
  };
  return objectOf(env, {{"rows", Napi::Number::New(env, static_cast<double>(rows))},
                        {"columns", Napi::Number::New(env, static_cast<double>(columns))},
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

}  // namespace collapsar
