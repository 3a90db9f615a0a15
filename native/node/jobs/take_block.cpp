// Engine.takeTokens and Engine.takeSums: what a claimed block of a TokenSumsSink adds to its step.

#include "engine/tokens/take_block.h"
#include "node/arguments/row_labels.h"
#include "node/arguments/token_scores.h"
#include "node/token_sink_object.h"
#include "operations.h"

namespace collapsar {
namespace {

class TakeTokensJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    claimed.step->spent.reset();
    return takeTokens(claimed.step->tokens, *claimed.block, tokens.scores(), pool, control);
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }

  ClaimedBlock claimed;
  TokenScoresArgument tokens;
};

class TakeSumsJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    claimed.step->spent.reset();
    return takeSums(claimed.step->tokens, *claimed.block, sums, pool, control);
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }

  ClaimedBlock claimed;
  ScoreMatrix sums{};
};

ClaimedBlock claimedBlock(Arguments& arguments) {
  const Napi::Value sink = arguments.next();
  return TokenSinkObject::claimed(sink, arguments.integer());
}

}  // namespace

// takeTokens(settle, sink: NativeTokenSink, block: number, ...tokens (see TokenScoresArgument::take; `lengths` those of
//            whole rows, 0 in the others)): number
std::unique_ptr<Job> takeTokensJob(Arguments& arguments) {
  auto job = std::make_unique<TakeTokensJob>();
  job->claimed = claimedBlock(arguments);
  job->tokens.take(arguments);
  job->tokens.hold(*job, arguments);
  return job;
}

// takeSums(settle, sink: NativeTokenSink, block: number, data: TensorData, dtype: 0|1|2|3, protected: boolean,
//          rows, columns, rowStride, columnStride: number): number
std::unique_ptr<Job> takeSumsJob(Arguments& arguments) {
  auto job = std::make_unique<TakeSumsJob>();
  job->claimed = claimedBlock(arguments);
  const MatrixArgument matrix(arguments, "sums", job->sums);
  expectMatrixShape(arguments.env(), "sums", job->sums.rows, job->sums.columns);
  matrix.hold(*job, job->sums);
  return job;
}

}  // namespace collapsar
