// NativeEngine.readBytes: a pure read of a typed array, timed. For benchmarks: src/engine does not offer it.
#include "engine/roofline/read_bytes.h"
#include "node/results/result_value.h"
#include "operations.h"
#include "timed_job.h"

namespace collapsar {
namespace {

class ReadBytesJob : public TimedJob {
 public:
  Outcome work(ThreadPool& pool) override { return readBytes(data, bytes, plan, pool, control, &sum); }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"seconds", seconds(env)}, {"sum", Napi::BigInt::New(env, sum)}});
  }

  const void* data = nullptr;
  std::size_t bytes = 0;
  ReadPlan plan{};

 private:
  std::uint64_t sum = 0;
};

}  // namespace

// readBytes(settle, data: TensorData, dtype: 0|1|2|3, protected: boolean, elements, prefetchBytes: number): number
std::unique_ptr<Job> readBytesJob(Arguments& arguments) {
  auto job = std::make_unique<ReadBytesJob>();
  const Napi::Value data = arguments.next();
  const DType dtype = arguments.dtype();
  const bool protectedByCaller = arguments.flag();
  const std::int64_t elements = arguments.integer();
  job->plan.prefetchBytes = arguments.integer();
  job->data = holdTensor(*job, data, "data", dtype, {{elements, 1}}, protectedByCaller);
  job->bytes = static_cast<std::size_t>(elements) * sizeOf(dtype);
  return job;
}

}  // namespace collapsar
