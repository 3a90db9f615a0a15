// NativeEngine.multiplyAdds: the processor's vector arithmetic, timed. For benchmarks: src/engine does not offer it.
#include "engine/roofline/multiply_adds.h"
#include "node/results/result_value.h"
#include "operations.h"
#include "timed_job.h"

namespace collapsar {
namespace {

class MultiplyAddsJob : public TimedJob {
 public:
  Outcome work(ThreadPool& pool) override { return multiplyAdds(steps, pool, control, &count, &sum); }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env,
                    {{"seconds", seconds(env)}, {"count", numberOf(env, count)}, {"sum", Napi::Number::New(env, sum)}});
  }

  std::int64_t steps = 0;

 private:
  std::int64_t count = 0;
  double sum = 0;
};

}  // namespace

// multiplyAdds(settle, steps: number): number      on each thread; count: of lanes, over all
std::unique_ptr<Job> multiplyAddsJob(Arguments& arguments) {
  auto job = std::make_unique<MultiplyAddsJob>();
  job->steps = arguments.integer();
  return job;
}

}  // namespace collapsar
