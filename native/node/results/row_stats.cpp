#include "row_stats.h"

#include <utility>

#include "result_value.h"

namespace collapsar {

RowStats RowStatsOutput::fields(const std::function<double*(int)>& doubles,
                                const std::function<std::int32_t*(int)>& integers) const {
  RowStats stats;
  double** const doublesOf[kDoubles] = {&stats.matchedSeq,      &stats.matchedToken,   &stats.marginalSeq,
                                        &stats.marginalToken,   &stats.looMarginalSeq, &stats.looMarginalToken,
                                        &stats.posteriorEntropy};
  for (int field = 0; field < kDoubles; ++field) *doublesOf[field] = doubles(field);
  std::int32_t** const integersOf[kIntegers] = {&stats.argmax, &stats.rankAbove, &stats.rankEqual, &stats.hitRank,
                                                &stats.topColumns};
  for (int field = 0; field < kIntegers; ++field) *integersOf[field] = integers(field);
  stats.topK = topK;
  return stats;
}

RowStats RowStatsOutput::allocate() {
  memory_ = MemoryBlock::allocateUnset(bytes());
  return fields([&](int field) { return memory_->at<double>(doublesAt(field)); },
                [&](int field) { return memory_->at<std::int32_t>(integersAt(field)); });
}

RowStats RowStatsOutput::allocateOn(Device& device, DeviceResults& results) {
  return fields([&](int field) { return results.allocate<double>(device, rows, &numbers_[field]); },
                [&](int field) {
                  const std::int64_t perRow = field == kIntegers - 1 ? topK : 1;
                  return results.allocate<std::int32_t>(device, rows * perRow, &numbers_[kDoubles + field]);
                });
}

Napi::Object RowStatsOutput::value(Napi::Env env) {
  const Napi::ArrayBuffer buffer = onDevice ? Napi::ArrayBuffer() : bufferOver(env, std::move(memory_));
  const auto doubles = [&](int field) -> Napi::Value {
    if (onDevice) return Napi::Number::New(env, numbers_[field]);
    return float64View(buffer, doublesAt(field), rows);
  };
  const auto integers = [&](int field, std::int64_t perRow) -> Napi::Value {
    if (onDevice) return Napi::Number::New(env, numbers_[kDoubles + field]);
    return int32View(buffer, integersAt(field), rows * perRow);
  };
  return objectOf(env, {{"rows", numberOf(env, rows)},
                        {"columns", numberOf(env, columns)},
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
                        {"hitRank", integers(3, 1)},
                        {"topColumns", integers(4, topK)}});
}

}  // namespace collapsar
