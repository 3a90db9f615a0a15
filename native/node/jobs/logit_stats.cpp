// Engine.logitStats: [N,V] logits -> one array for each field that is wanted, and means a sequence: all in one block of
// memory, or the fields on the GPU.
#include <string>
#include <utility>
#include <vector>

#include "engine/logit_stats.h"
#include "node/results/device_results.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

// Bits of `fields`, in the order of src/engine/operations/logit-fields.ts.
enum LogitField { kLogSumExp, kEntropy, kTargetLogprob, kArgmax, kRankAbove, kRankEqual, kFields };
constexpr const char* kFieldNames[kFields] = {"logsumexp", "entropy",   "targetLogprob",
                                              "argmax",    "rankAbove", "rankEqual"};
constexpr int kDoubleFields = 3;

class LogitStatsJob : public Job {
 public:
  // Where everything on the host stands: the float64 fields, means of entropy and target log-prob, then the int32
  // fields.
  std::size_t layOut() {
    std::size_t at = 0;
    const auto place = [&at](bool wanted, std::size_t count, std::size_t size) {
      const std::size_t here = at;
      if (wanted) at += count * size;
      return here;
    };
    for (int field = 0; field < kDoubleFields; ++field) {
      fieldAt_[field] = place(isOnHost(field), rows(), sizeof(double));
    }
    for (std::size_t& mean : meanAt_) mean = place(hasSequences, begins.size(), sizeof(double));
    for (int field = kDoubleFields; field < kFields; ++field) {
      fieldAt_[field] = place(isOnHost(field), rows(), sizeof(std::int32_t));
    }
    return at;
  }

  Outcome run(ThreadPool& pool) override {
    memory_ = MemoryBlock::allocate(layOut());
    if (outOnDevice) return kept_.keepIfDone(*device, [&] { return compute(pool); });
    return compute(pool);
  }

  Napi::Value result(Napi::Env env) override {
    const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory_));
    const auto field = [&](int number) -> Napi::Value {
      if (!wants(number)) return env.Undefined();
      if (outOnDevice) return Napi::Number::New(env, numbers_[number]);
      return number < kDoubleFields ? float64View(buffer, fieldAt_[number], logits.rows)
                                    : int32View(buffer, fieldAt_[number], logits.rows);
    };
    const auto mean = [&](int number, bool computed) -> Napi::Value {
      if (!computed) return env.Undefined();
      return float64View(buffer, meanAt_[number], static_cast<std::int64_t>(begins.size()));
    };
    return objectOf(env, {{"rows", numberOf(env, logits.rows)},
                          {"columns", numberOf(env, logits.columns)},
                          {kFieldNames[kLogSumExp], field(kLogSumExp)},
                          {kFieldNames[kEntropy], field(kEntropy)},
                          {kFieldNames[kTargetLogprob], field(kTargetLogprob)},
                          {kFieldNames[kArgmax], field(kArgmax)},
                          {kFieldNames[kRankAbove], field(kRankAbove)},
                          {kFieldNames[kRankEqual], field(kRankEqual)},
                          {"meanEntropy", mean(0, hasSequences)},
                          {"meanTargetLogprob", mean(1, hasSequences && hasTargets)}});
  }

  bool wants(int field) const { return (fields >> field & 1) != 0; }

  LogitMatrix logits{};
  int fields = 0;
  double temperature = 1;
  bool outOnDevice = false;
  bool hasTargets = false, hasMask = false, hasSequences = false;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> mask;
  std::vector<std::int64_t> begins, ends;

 private:
  Outcome compute(ThreadPool& pool) {
    LogitStats stats{};
    double** const doubles[] = {&stats.logsumexp, &stats.entropy, &stats.targetLogprob};
    for (int field = 0; field < kDoubleFields; ++field) *doubles[field] = place<double>(field);
    std::int32_t** const integers[] = {&stats.argmax, &stats.rankAbove, &stats.rankEqual};
    for (int field = kDoubleFields; field < kFields; ++field) {
      *integers[field - kDoubleFields] = place<std::int32_t>(field);
    }
    LogitSequences sequences{};
    if (hasSequences) {
      sequences = {static_cast<std::int64_t>(begins.size()), begins.data(), ends.data(),
                   memory_->at<double>(meanAt_[0]), hasTargets ? memory_->at<double>(meanAt_[1]) : nullptr};
    }
    const LogitRows labels{hasTargets ? targets.data() : nullptr, hasMask ? mask.data() : nullptr, temperature};
    if (device != nullptr) {
      return device->logitStats(logits, dataOnDevice, labels, stats, outOnDevice, sequences, *this);
    }
    return logitStats(logits, labels, stats, sequences, pool, control);
  }

  // Means are made of the rows' values, which the host therefore keeps even where they are not given out. A GPU that
  // keeps its results sees to that itself.
  bool isOnHost(int field) const {
    if (outOnDevice) return false;
    if (field == kEntropy && hasSequences) return true;
    if (field == kTargetLogprob && hasSequences && hasTargets) return true;
    return wants(field);
  }
  // Memory of a field; null if there is none.
  template <class T>
  T* place(int field) {
    if (isOnHost(field)) return memory_->at<T>(fieldAt_[field]);
    return outOnDevice && wants(field) ? kept_.allocate<T>(*device, logits.rows, &numbers_[field]) : nullptr;
  }
  std::size_t rows() const { return static_cast<std::size_t>(logits.rows); }

  std::shared_ptr<MemoryBlock> memory_;
  DeviceResults kept_;
  std::uint32_t numbers_[kFields] = {};
  std::size_t fieldAt_[kFields] = {}, meanAt_[2] = {};
};

// Sequences one after the other, which together have all rows.
void sequencesFromLengths(LogitStatsJob& job, Napi::Value given) {
  const Napi::Env env = given.Env();
  const std::int64_t rows = job.logits.rows;
  std::int64_t at = 0;
  for (const std::int64_t length : integers64(given, "options.sequences.lengths", 0, rows)) {
    job.begins.push_back(at);
    at += length;  // each is at most `rows`, so that this cannot overflow before the check below
    job.ends.push_back(at);
    if (at > rows) break;
  }
  if (at != rows) {
    rejectArgument(env, "options.sequences.lengths",
                   (at > rows ? "their sum is more than " : "their sum is " + std::to_string(at) + ", expected ") +
                       std::to_string(rows) + (at > rows ? ", the number of rows" : " (the number of rows)"));
  }
}

// Sequence i has the rows offsets[i] to offsets[i + 1].
void sequencesFromOffsets(LogitStatsJob& job, Napi::Value given) {
  const Napi::Env env = given.Env();
  const std::vector<std::int64_t> offsets = integers64(given, "options.sequences.offsets", 0, job.logits.rows);
  if (offsets.empty())
    rejectArgument(env, "options.sequences.offsets", "got no entry, expected one more than sequences");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      rejectArgument(env, "options.sequences.offsets",
                     "entry " + std::to_string(i) + " is " + std::to_string(offsets[i]) + ", below the one before");
    }
  }
  job.begins.assign(offsets.begin(), offsets.end() - 1);
  job.ends.assign(offsets.begin() + 1, offsets.end());
}

// Rows that the mask leaves out may have any target: trainers write -100 there.
void takeTargets(LogitStatsJob& job, const Napi::Value& targets) {
  const std::vector<std::int64_t> given = integers64(targets, "options.targets", INT64_MIN, INT64_MAX);
  expectCount(targets.Env(), "options.targets", given.size(), job.logits.rows, "row");
  job.targets.resize(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (job.hasMask && job.mask[i] == 0) continue;
    if (given[i] < 0 || given[i] >= job.logits.columns) {
      rejectArgument(targets.Env(), "options.targets",
                     "entry " + std::to_string(i) + " is " + std::to_string(given[i]) + ", expected 0 to " +
                         std::to_string(job.logits.columns - 1) + "; options.mask leaves out rows without a target");
    }
    job.targets[i] = static_cast<std::int32_t>(given[i]);
  }
}

}  // namespace

// logitStats(settle, data: TensorData | DeviceMemory, dtype: 0|1|2|3, protected: boolean,
//            rows, columns, rowStride, columnStride: number, fields: number, temperature: number,
//            targets, mask: IntegerArray | undefined, lengths, offsets: IntegerArray | undefined,
//            outOnDevice: boolean): number
std::unique_ptr<Job> logitStatsJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<LogitStatsJob>();
  LogitMatrix& logits = job->logits;
  const MatrixArgument matrix(arguments, "logits", logits);
  expectMatrixShape(env, "logits", logits.rows, logits.columns);
  job->fields = static_cast<int>(arguments.integer());
  job->temperature = arguments.next().As<Napi::Number>().DoubleValue();

  const Napi::Value targets = arguments.next();
  const Napi::Value mask = arguments.next();
  job->hasMask = !mask.IsUndefined();
  if (job->hasMask) {
    const std::vector<std::int32_t> values = integers32(mask, "options.mask", 0, 1);
    expectCount(env, "options.mask", values.size(), logits.rows, "row");
    job->mask.assign(values.begin(), values.end());
  }
  job->hasTargets = !targets.IsUndefined();
  if (job->hasTargets) takeTargets(*job, targets);
  const Napi::Value lengths = arguments.next();
  const Napi::Value offsets = arguments.next();
  job->hasSequences = !lengths.IsUndefined() || !offsets.IsUndefined();
  if (!lengths.IsUndefined()) {
    sequencesFromLengths(*job, lengths);
  } else if (!offsets.IsUndefined()) {
    sequencesFromOffsets(*job, offsets);
  }

  job->outOnDevice = takeOutOnDevice(*job, arguments);
  matrix.hold(*job, logits);
  if (job->layOut() > maxBufferBytes) {
    rejectArgument(env, "logits", "has more rows than one ArrayBuffer has place for: pass it in parts");
  }
  return job;
}

}  // namespace collapsar
