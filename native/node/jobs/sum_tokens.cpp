// Engine.sumTokens: token log-probs -> sums, in place of `out` or into new memory.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokens/sum_tokens.h"
#include "node/arguments/token_scores.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class SumTokensJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const std::size_t rows = tokens.lengths.size();
    const std::size_t lengthBytes = rows * sizeof(std::int64_t);
    ownSums = out.sums == nullptr && !outOnDevice;
    const std::size_t sumBytes = ownSums ? rows * static_cast<std::size_t>(out.columns) * sizeof(double) : 0;
    memory = MemoryBlock::allocate(sumBytes + lengthBytes);
    if (ownSums) out.sums = memory->at<double>(0);
    lengthsAt = sumBytes;
    if (lengthBytes > 0) std::memcpy(memory->at<char>(lengthsAt), tokens.lengths.data(), lengthBytes);
    out.columnOf = columns.empty() ? nullptr : columns.data();
    if (device != nullptr) {
      return device->sumTokens(tokens.scores(), dataOnDevice, out, outOnDevice, &invalid, *this);
    }
    return sumTokens(tokens.scores(), out, pool, control, &invalid);
  }

  Napi::Value result(Napi::Env env) override {
    const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory));
    const std::int64_t rows = tokens.rows();
    return objectOf(env, {{"sums", ownSums ? float64View(buffer, 0, rows * out.columns) : env.Undefined()},
                          {"lengths", int64View(buffer, lengthsAt, rows)},
                          {"firstInvalid", invalidTokenValue(env, invalid)}});
  }

  TokenScoresArgument tokens;
  TokenSums out{};
  bool outOnDevice = false;
  std::vector<std::int32_t> columns;

 private:
  std::shared_ptr<MemoryBlock> memory;
  bool ownSums = false;
  std::size_t lengthsAt = 0;
  InvalidToken invalid;
};

std::vector<std::int32_t> targetColumns(Napi::Value given, std::int64_t prompts, std::int64_t outColumns) {
  const Napi::Env env = given.Env();
  if (given.IsUndefined()) {
    if (outColumns < prompts) {
      rejectArgument(env, "options.out",
                     "has " + std::to_string(outColumns) + " columns for " + std::to_string(prompts) + " prompts");
    }
    return {};
  }
  std::vector<std::int32_t> columns =
      integers32(given, "options.columns", 0, static_cast<std::int32_t>(outColumns - 1));
  expectCount(env, "options.columns", columns.size(), prompts, "prompt");
  // Two prompts writing one column would leave to chance whose sum stays.
  std::vector<bool> taken(static_cast<std::size_t>(outColumns));
  for (std::size_t prompt = 0; prompt < columns.size(); ++prompt) {
    const std::size_t column = static_cast<std::size_t>(columns[prompt]);
    if (taken[column]) {
      rejectArgument(
          env, "options.columns",
          "entry " + std::to_string(prompt) + " is " + std::to_string(column) + ", which an earlier prompt has");
    }
    taken[column] = true;
  }
  return columns;
}

}  // namespace

// sumTokens(settle, ...tokens (see TokenScoresArgument::take), columns: IntegerArray | undefined,
//           outRows, outColumns: number, out: Float64Array | DeviceMemory | undefined): number
std::unique_ptr<Job> sumTokensJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<SumTokensJob>();
  TokenScoresArgument& tokens = job->tokens;
  tokens.take(arguments);
  const std::int64_t rows = tokens.rows();
  const Napi::Value columns = arguments.next();
  const std::int64_t outRows = arguments.integer();
  const std::int64_t outColumns = arguments.integer();
  const Napi::Value out = arguments.next();
  job->out.columns = out.IsUndefined() ? tokens.prompts() : outColumns;
  if (job->out.columns > INT32_MAX) rejectArgument(env, "options.out", "has more than 2147483647 columns");
  job->columns = targetColumns(columns, tokens.prompts(), job->out.columns);
  tokens.hold(*job, arguments);

  const __int128 resultBytes = (static_cast<__int128>(rows) * job->out.columns + rows) * 8;
  if (out.IsUndefined()) {
    if (resultBytes > static_cast<__int128>(maxBufferBytes)) {
      rejectArgument(env, "options.out",
                     "a result of " + std::to_string(rows) + " x " + std::to_string(job->out.columns) +
                         " is more than one ArrayBuffer can hold: pass memory from engine.alloc()");
    }
  } else {
    if (outRows != rows) {
      rejectArgument(env, "options.out", "has " + std::to_string(outRows) + " rows, expected " + std::to_string(rows));
    }
    if (resultBytes > INT64_MAX) rejectArgument(env, "options.out", "is too large");
    job->outOnDevice = out.IsNumber();
    // Sums that shall be on the GPU are made there, wherever the log-probs are.
    if (job->outOnDevice) job->device = arguments.device();
    job->out.sums = holdOutput(*job, out, "options.out", outRows * outColumns);
    const char* const outStart = reinterpret_cast<const char*>(job->out.sums);
    const char* const dataStart = static_cast<const char*>(tokens.scores().data);
    if (job->outOnDevice == job->dataOnDevice && outStart < dataStart + tokens.dataBytes() &&
        dataStart < outStart + outRows * outColumns * 8) {
      rejectArgument(env, "options.out", "overlaps the memory of logprobs");
    }
  }
  return job;
}

}  // namespace collapsar
