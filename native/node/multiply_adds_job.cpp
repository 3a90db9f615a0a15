// NativeEngine.multiplyAdds: the processor's vector arithmetic, timed. For benchmarks: src/engine does not offer it.
#include <chrono>

#include "engine/multiply_adds.h"
#include "operations.h"
#include "result_value.h"

namespace collapsar {
namespace {

class MultiplyAddsJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = multiplyAdds(activeIsa(), steps, pool, control, &lanes);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"seconds", Napi::Number::New(env, seconds)}, {"lanes", Napi::Number::New(env, lanes)}});
  }

  std::int64_t steps = 0;

 private:
  int lanes = 0;
  double seconds = 0;
};

}  // namespace

// multiplyAdds(settle, steps: number): number      16 vector multiply-adds a step on each thread
std::unique_ptr<Job> multiplyAddsJob(Arguments& arguments) {
  auto job = std::make_unique<MultiplyAddsJob>();
  job->steps = arguments.integer();
  return job;
}

}  // namespace collapsar
