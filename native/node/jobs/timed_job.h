// A job for benchmarks, which says how long its work took: without the way there and back.
#pragma once

#include <chrono>

#include "node/job.h"

namespace collapsar {

class TimedJob : public Job {
 public:
  Outcome run(ThreadPool& pool) final {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = work(pool);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

 protected:
  virtual Outcome work(ThreadPool& pool) = 0;
  Napi::Value seconds(Napi::Env env) const { return Napi::Number::New(env, seconds_); }

 private:
  double seconds_ = 0;
};

}  // namespace collapsar
