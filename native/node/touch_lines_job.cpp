// NativeEngine.touchLines: the cache lines of valid tokens, touched and timed. For benchmarks: src/engine does not
// offer it.
#include <chrono>

#include "engine/touch_lines.h"
#include "operations.h"
#include "result_value.h"
#include "token_scores_argument.h"

namespace collapsar {
namespace {

class TouchLinesJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = touchLines(tokens.scores(), pool, control, &sum);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"seconds", Napi::Number::New(env, seconds)}, {"sum", Napi::BigInt::New(env, sum)}});
  }

  TokenScoresArgument tokens;

 private:
  std::uint64_t sum = 0;
  double seconds = 0;
};

}  // namespace

// touchLines(settle, ...tokens (see TokenScoresArgument::take), whose token stride is 1 and which are on the host):
// number
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
