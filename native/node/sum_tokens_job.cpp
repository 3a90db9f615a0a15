// Engine.sumTokens: token log-probs -> sums, in place of `out` or into new memory.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/sum_tokens.h"
#include "operations.h"
#include "result_value.h"

namespace collapsar {
namespace {

class SumTokensJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const std::size_t lengthBytes = lengths.size() * sizeof(std::int64_t);
    const std::size_t sumBytes = out.sums != nullptr ? 0 : lengths.size() * out.columns * sizeof(double);
    memory = MemoryBlock::allocate(sumBytes + lengthBytes);
    ownSums = out.sums == nullptr;
    if (ownSums) out.sums = memory->at<double>(0);
    lengthsAt = sumBytes;
    if (lengthBytes > 0) std::memcpy(memory->at<char>(lengthsAt), lengths.data(), lengthBytes);
    scores.lengths = lengths.data();
    scores.rowOffsets = packed ? offsets.data() : nullptr;
    out.columnOf = columns.empty() ? nullptr : columns.data();
    return sumTokens(scores, out, pool, control, &invalid);
  }

  Napi::Value result(Napi::Env env) override {
    const Napi::ArrayBuffer buffer = bufferOver(env, std::move(memory));
    const std::int64_t rows = static_cast<std::int64_t>(lengths.size());
    return objectOf(env, {{"sums", ownSums ? float64View(buffer, 0, rows * out.columns) : env.Undefined()},
                          {"lengths", int64View(buffer, lengthsAt, rows)},
                          {"firstInvalid", invalidTokenValue(env, invalid)}});
  }

  TokenScores scores{};
  TokenSums out{};
  bool packed = false;
  std::vector<std::int64_t> lengths, offsets;
  std::vector<std::int32_t> columns;

 private:
  std::shared_ptr<MemoryBlock> memory;
  bool ownSums = false;
  std::size_t lengthsAt = 0;
  InvalidToken invalid;
};

// Packed rows lie anywhere on the token axis, by default one after the other.
std::vector<std::int64_t> packedOffsets(Napi::Value given, const std::vector<std::int64_t>& lengths,
                                        std::int64_t tokens) {
  const Napi::Env env = given.Env();
  std::vector<std::int64_t> offsets;
  if (given.IsUndefined()) {
    offsets.reserve(lengths.size());
    std::int64_t sum = 0;
    for (const std::int64_t length : lengths) {
      offsets.push_back(sum);
      // Each length is at most `tokens`, so the sum cannot overflow before this stops it.
      sum += length;
      if (sum > tokens) {
        rejectArgument(env, "lengths",
                       "row " + std::to_string(offsets.size() - 1) + " ends at token " + std::to_string(sum) +
                           ", but the packed logprobs have " + std::to_string(tokens));
      }
    }
    return offsets;
  }
  offsets = integers64(given, "options.offsets", 0, tokens);
  expectCount(env, "options.offsets", offsets.size(), static_cast<std::int64_t>(lengths.size()), "row");
  for (std::size_t row = 0; row < offsets.size(); ++row) {
    if (offsets[row] > tokens - lengths[row]) {
      rejectArgument(env, "options.offsets",
                     "row " + std::to_string(row) + " ends at token " + std::to_string(offsets[row] + lengths[row]) +
                         ", but the packed logprobs have " + std::to_string(tokens));
    }
  }
  return offsets;
}

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

// sumTokens(settle, data: TensorData, dtype: 0|1|2|3, protected: boolean, packed: boolean,
//           prompts, rows, tokens, promptStride, rowStride, tokenStride: number,      rows, rowStride: 0 if packed
//           lengths: IntegerArray, offsets: IntegerArray | undefined, columns: IntegerArray | undefined,
//           outRows, outColumns: number, out: Float64Array | undefined): number
std::unique_ptr<Job> sumTokensJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<SumTokensJob>();
  TokenScores& scores = job->scores;
  const Napi::Value data = arguments.next();
  scores.dtype = static_cast<DType>(arguments.integer());
  const bool protectedByCaller = arguments.flag();
  job->packed = arguments.flag();
  scores.prompts = arguments.integer();
  scores.rows = arguments.integer();
  const std::int64_t tokens = arguments.integer();
  scores.promptStride = arguments.integer();
  scores.rowStride = arguments.integer();
  scores.tokenStride = arguments.integer();

  job->lengths = integers64(arguments.next(), "lengths", 0, tokens);
  const Napi::Value offsets = arguments.next();
  if (job->packed) {
    scores.rows = static_cast<std::int64_t>(job->lengths.size());
    job->offsets = packedOffsets(offsets, job->lengths, tokens);
  } else {
    expectCount(env, "lengths", job->lengths.size(), scores.rows, "row");
    if (!offsets.IsUndefined()) rejectArgument(env, "options.offsets", "only packed logprobs [P, N] have offsets");
  }
  if (scores.rows > 0 && scores.prompts == 0) rejectArgument(env, "logprobs", "has rows but no prompts");
  if (scores.prompts > INT32_MAX) rejectArgument(env, "logprobs", "has more than 2147483647 prompts");

  const Napi::Value columns = arguments.next();
  const std::int64_t outRows = arguments.integer();
  const std::int64_t outColumns = arguments.integer();
  const Napi::Value out = arguments.next();
  job->out.columns = out.IsUndefined() ? scores.prompts : outColumns;
  if (job->out.columns > INT32_MAX) rejectArgument(env, "options.out", "has more than 2147483647 columns");
  job->columns = targetColumns(columns, scores.prompts, job->out.columns);

  std::size_t dataBytes = 0;
  if (job->packed) {
    scores.data = holdTensor(*job, data, "logprobs", scores.dtype,
                             {{scores.prompts, scores.promptStride}, {tokens, scores.tokenStride}}, protectedByCaller,
                             &dataBytes);
  } else {
    scores.data = holdTensor(
        *job, data, "logprobs", scores.dtype,
        {{scores.prompts, scores.promptStride}, {scores.rows, scores.rowStride}, {tokens, scores.tokenStride}},
        protectedByCaller, &dataBytes);
  }

  const __int128 resultBytes = (static_cast<__int128>(scores.rows) * job->out.columns + scores.rows) * 8;
  if (out.IsUndefined()) {
    if (resultBytes > static_cast<__int128>(maxBufferBytes)) {
      rejectArgument(env, "options.out",
                     "a result of " + std::to_string(scores.rows) + " x " + std::to_string(job->out.columns) +
                         " is more than one ArrayBuffer can hold: pass memory from engine.alloc()");
    }
  } else {
    if (outRows != scores.rows) {
      rejectArgument(env, "options.out",
                     "has " + std::to_string(outRows) + " rows, expected " + std::to_string(scores.rows));
    }
    if (resultBytes / 8 > INT64_MAX / 8) rejectArgument(env, "options.out", "is too large");
    job->out.sums = holdOutput(*job, out, "options.out", outRows * outColumns);
    const char* const outStart = reinterpret_cast<const char*>(job->out.sums);
    const char* const dataStart = static_cast<const char*>(scores.data);
    if (outStart < dataStart + dataBytes && dataStart < outStart + outRows * outColumns * 8) {
      rejectArgument(env, "options.out", "overlaps the memory of logprobs");
    }
  }
  return job;
}

}  // namespace collapsar
