// Engine.tokenRowStats on a GPU: token log-probs -> row statistics, by way of sums that need not leave it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "node/arguments/row_labels.h"
#include "node/arguments/token_scores.h"
#include "node/results/result_value.h"
#include "node/results/row_stats.h"
#include "operations.h"

namespace collapsar {
namespace {

class TokenRowStatsJob : public Job {
 public:
  // The sums [rows, prompts] if they are wanted here, then the lengths.
  std::size_t sumBytes() const {
    return wantsSums && !out.onDevice ? static_cast<std::size_t>(out.rows * out.columns) * sizeof(double) : 0;
  }

  Outcome run(ThreadPool&) override {
    const std::size_t lengthBytes = tokens.lengths.size() * sizeof(std::int64_t);
    memory = MemoryBlock::allocate(sumBytes() + lengthBytes);
    if (lengthBytes > 0) std::memcpy(memory->at<char>(sumBytes()), tokens.lengths.data(), lengthBytes);
    if (!out.onDevice) return compute(out.allocate(), wantsSums ? memory->at<double>(0) : nullptr);
    return kept.keepIfDone(*device, [&] {
      const RowStats stats = out.allocateOn(*device, kept);
      return compute(stats, wantsSums ? kept.allocate<double>(*device, out.rows * out.columns, &sumsNumber) : nullptr);
    });
  }

  Napi::Value result(Napi::Env env) override {
    const std::size_t lengthsAt = sumBytes();
    const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory));
    const auto sums = [&]() -> Napi::Value {
      if (!wantsSums) return env.Undefined();
      if (out.onDevice) return Napi::Number::New(env, sumsNumber);
      return float64View(buffer, 0, out.rows * out.columns);
    };
    return objectOf(env, {{"stats", out.value(env)},
                          {"sums", sums()},
                          {"lengths", int64View(buffer, lengthsAt, out.rows)},
                          {"firstInvalid", invalidTokenValue(env, invalid)}});
  }

  TokenScoresArgument tokens;
  RowLabels labels;
  RowStatsOutput out;
  bool wantsSums = false;

 private:
  Outcome compute(const RowStats& stats, double* sums) {
    const ScoreRows rows{labels.own.data(), tokens.lengths.data(),
                         labels.signatures.empty() ? nullptr : labels.signatures.data()};
    return device->tokensToRowStats(tokens.scores(), dataOnDevice, rows, stats, out.onDevice, sums, &invalid, *this);
  }

  std::shared_ptr<MemoryBlock> memory;
  InvalidToken invalid;
  DeviceResults kept;
  std::uint32_t sumsNumber = 0;
};

}  // namespace

// tokenRowStats(settle, ...tokens (see TokenScoresArgument::take), own: IntegerArray,
//               signatures: IntegerArray | undefined, topK: number, sums: boolean,
//               outOnDevice: boolean): number
std::unique_ptr<Job> tokenRowStatsJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<TokenRowStatsJob>();
  job->tokens.take(arguments);
  job->out.rows = job->tokens.rows();
  job->out.columns = job->tokens.prompts();
  job->labels = RowLabels::takeOwn(arguments, "options.", job->out.rows, job->out.columns);
  job->out.topK = static_cast<int>(std::min<std::int64_t>(arguments.integer(), job->out.columns));
  job->wantsSums = arguments.flag();
  job->out.onDevice = takeOutOnDevice(*job, arguments);
  job->tokens.hold(*job, arguments);
  if (job->device == nullptr) throw Napi::Error::New(env, "tokenRowStats: host tensors of this engine run on the CPU");
  const __int128 sumBytes = (static_cast<__int128>(job->out.rows) * job->out.columns + job->out.rows) * 8;
  if (job->wantsSums && sumBytes > INT64_MAX) rejectArgument(env, "logprobs", "has too many rows and prompts for sums");
  if (job->out.bytes() > maxBufferBytes ||
      (job->wantsSums && !job->out.onDevice && sumBytes > static_cast<__int128>(maxBufferBytes))) {
    rejectArgument(env, "logprobs", "has more rows than one ArrayBuffer has place for: pass it in parts");
  }
  return job;
}

}  // namespace collapsar
