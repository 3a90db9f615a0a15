// NativeEngine.readFile: a pure read of a file, timed. For benchmarks: src/engine does not offer it.
#include "engine/roofline/read_file.h"
#include "node/results/result_value.h"
#include "operations.h"
#include "timed_job.h"

namespace collapsar {
namespace {

class ReadFileJob : public TimedJob {
 public:
  Outcome work(ThreadPool& pool) override { return readFile(fd, offset, bytes, pieceBytes, pool, control, &failure); }

  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"seconds", seconds(env)}, {"failure", failureValue(env, failure)}});
  }

  int fd = -1;
  std::int64_t offset = 0, bytes = 0, pieceBytes = 0;

 private:
  ReadFailure failure;
};

}  // namespace

// readFile(settle, fd, offset, bytes, pieceBytes: number): number    pieceBytes: up to 256 KiB; 0: as sumFileTokens
std::unique_ptr<Job> readFileJob(Arguments& arguments) {
  auto job = std::make_unique<ReadFileJob>();
  job->fd = static_cast<int>(arguments.integer());
  job->offset = arguments.integer();
  job->bytes = arguments.integer();
  const std::int64_t pieceBytes = arguments.integer();
  job->pieceBytes = pieceBytes > 0 ? pieceBytes : kPieceBytes;
  return job;
}

}  // namespace collapsar
