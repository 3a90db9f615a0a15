// Engine.sumFileTokens: token log-probs in an open file -> sums, in place of `out` or into new memory.
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokens/sum_file_tokens.h"
#include "node/arguments/token_scores.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class SumFileTokensJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    if (out.sums == nullptr) {
      memory = MemoryBlock::allocate(static_cast<std::size_t>(scores.rows * scores.prompts) * sizeof(double));
      out.sums = memory->at<double>(0);
    }
    scores.lengths = lengths.data();
    return sumFileTokens(scores, out, pool, control, &invalid, &failure);
  }

  Napi::Value result(Napi::Env env) override {
    Napi::Value sums = env.Undefined();
    if (memory != nullptr) sums = float64View(bufferOver(env, std::move(memory)), 0, scores.rows * scores.prompts);
    return objectOf(
        env,
        {{"sums", sums}, {"firstInvalid", invalidTokenValue(env, invalid)}, {"failure", failureValue(env, failure)}});
  }

  FileScores scores{};
  TokenSums out{};
  std::vector<std::int64_t> lengths;

 private:
  std::shared_ptr<MemoryBlock> memory;
  InvalidToken invalid;
  ReadFailure failure;
};

}  // namespace

// sumFileTokens(settle, fd, offset: number, dtype: 0|1|2|3, prompts, rows, tokens: number, lengths: IntegerArray,
//               outRows, outColumns: number, out: Float64Array | undefined): number
// The caller keeps fd open until the job has ended, and has checked that the extents multiply to less than 2^53 bytes.
std::unique_ptr<Job> sumFileTokensJob(Arguments& arguments, std::size_t maxBufferBytes) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<SumFileTokensJob>();
  FileScores& scores = job->scores;
  const std::int64_t fd = arguments.integer();
  if (fd < 0 || fd > INT_MAX) rejectArgument(env, "scores.fd", "expected an open file");
  scores.fd = static_cast<int>(fd);
  scores.offset = arguments.integer();
  scores.dtype = arguments.dtype();
  scores.prompts = arguments.integer();
  scores.rows = arguments.integer();
  scores.tokens = arguments.integer();
  job->lengths = integers64(arguments.next(), "lengths", 0, scores.tokens);
  expectCount(env, "lengths", job->lengths.size(), scores.rows, "row");
  expectTokenShape(env, "scores", scores.prompts, scores.rows);
  const std::int64_t outRows = arguments.integer(), outColumns = arguments.integer();
  const Napi::Value out = arguments.next();
  job->out.columns = scores.prompts;
  if (out.IsUndefined()) {
    if (static_cast<__int128>(scores.rows) * scores.prompts * 8 > static_cast<__int128>(maxBufferBytes)) {
      rejectArgument(env, "options.out", "the result is more than one ArrayBuffer can hold: use engine.alloc()");
    }
  } else {
    if (outRows != scores.rows || outColumns != scores.prompts) {
      rejectArgument(env, "options.out",
                     "is [" + std::to_string(outRows) + ", " + std::to_string(outColumns) + "], expected [" +
                         std::to_string(scores.rows) + ", " + std::to_string(scores.prompts) + "]");
    }
    job->out.sums = holdOutput(*job, out, "options.out", outRows * outColumns);
  }
  return job;
}

}  // namespace collapsar
