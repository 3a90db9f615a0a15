// NativeEngine.touchLines: the cache lines of valid tokens, timed. For benchmarks: src/engine does not offer it.
#include "engine/roofline/touch_lines.h"
#include "node/arguments/token_scores.h"
#include "node/results/result_value.h"
#include "operations.h"
#include "timed_job.h"

namespace collapsar {
namespace {

class TouchLinesJob : public TimedJob {
 public:
  Outcome work(ThreadPool& pool) override { return touchLines(tokens.scores(), pool, control, &sum); }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"seconds", seconds(env)}, {"sum", Napi::BigInt::New(env, sum)}});
  }

  TokenScoresArgument tokens;

 private:
  std::uint64_t sum = 0;
};

}  // namespace

// touchLines(settle, ...tokens (see TokenScoresArgument::take)): number    of token stride 1 and on the host
std::unique_ptr<Job> touchLinesJob(Arguments& arguments) {
  auto job = std::make_unique<TouchLinesJob>();
  job->tokens.take(arguments);
  if (job->tokens.scores().tokenStride != 1) {
    rejectArgument(arguments.env(), "logprobs", "has tokens that do not lie side by side");
  }
  job->tokens.hold(*job, arguments);
  return job;
}

}  // namespace collapsar
