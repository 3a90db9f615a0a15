// Engine.promptMatrices: scores and statistics of a step -> figures of each prompt, and matrices of prompts by prompts.
#include <vector>

#include "engine/inference/prompt_matrices.h"
#include "node/arguments/row_labels.h"
#include "node/arguments/row_stats.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class PromptMatricesJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const RowStats rowStats = stats.checkedFinite();
    input.rows = stats.rows;
    input.columns = stats.columns;
    input.labels = labels.rows();
    input.stats = &rowStats;
    return promptMatrices(input, found, pool, control);
  }

  Napi::Value result(Napi::Env env) override {
    // In the order of src/engine/operations/prompt-matrices.ts.
    std::vector<double> numbers(found.rows.begin(), found.rows.end());
    for (const auto* values : {&found.mi, &found.low, &found.high, &found.retrieval}) {
      numbers.insert(numbers.end(), values->begin(), values->end());
    }
    return objectOf(env, {{"numbers", numbersOf(env, numbers)},
                          {"posterior", input.matrices ? bytesOf(env, found.posterior) : env.Undefined()},
                          {"nats", input.matrices ? halvesOf(env, found.nats) : env.Undefined()}});
  }

  PromptMatrixInput input{};
  RowStatsInput stats;
  RowLabels labels;

 private:
  PromptMatrices found{};
};

}  // namespace

// promptMatrices(settle, data: TensorData, protected: boolean, ...stats (see RowStatsInput::take),
//                own, lengths: IntegerArray, signatures: IntegerArray | undefined, matrices: boolean): number
// data is dense float64 [rows, columns].
std::unique_ptr<Job> promptMatricesJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<PromptMatricesJob>();
  const Napi::Value data = arguments.next();
  const bool protectedByCaller = arguments.flag();
  job->stats.take(*job, arguments);
  const std::int64_t rows = job->stats.rows, columns = job->stats.columns;
  expectMatrixShape(env, "stats", rows, columns);
  job->labels = RowLabels::take(arguments, "options.", rows, columns);
  job->input.matrices = arguments.flag();
  job->input.scores = static_cast<const double*>(
      holdTensor(*job, data, "sums", DType::Float64, {{rows, columns}, {columns, 1}}, protectedByCaller));
  return job;
}

}  // namespace collapsar
