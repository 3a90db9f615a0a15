// Engine.inferStep: scores and statistics of a step -> intervals and p-values of its figures.
#include <vector>

#include "engine/inference/inference.h"
#include "node/arguments/row_labels.h"
#include "node/arguments/row_stats.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class InferStepJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    const RowStats rowStats = stats.checkedFinite();
    input.rows = stats.rows;
    input.columns = stats.columns;
    input.labels = labels.rows();
    input.stats = &rowStats;
    return inferStep(input, inference, pool, control);
  }

  Napi::Value result(Napi::Env env) override {
    // In the order of src/engine/operations/infer-step.ts.
    std::vector<double> numbers;
    for (const FigureInference& figure : inference.figures) {
      numbers.insert(numbers.end(),
                     {figure.estimate, figure.batchLow, figure.batchHigh, figure.batchError, figure.populationLow,
                      figure.populationHigh, figure.populationError, figure.pValue});
    }
    for (const bool flag : {inference.withinVariance, inference.calibrated}) {
      numbers.push_back(flag ? 1 : 0);
    }
    const auto add = [&numbers](const SubsetInference& of) {
      numbers.insert(numbers.end(), {of.estimate, of.batchLow, of.batchHigh, of.batchError});
    };
    numbers.push_back(static_cast<double>(input.rows));
    add(inference.margin);
    numbers.push_back(static_cast<double>(inference.marginRows));
    const auto addOverPrompts = [&numbers](const OverPrompts& of) {
      numbers.insert(numbers.end(), {of.estimate, of.error});
    };
    addOverPrompts(inference.overPrompts);
    for (const AmongInference& among : inference.among) {
      add(among);
      addOverPrompts(among.overPrompts);
    }
    return numbersOf(env, numbers);
  }

  InferenceInput input{};
  RowStatsInput stats;
  RowLabels labels;

 private:
  Inference inference{};
};

}  // namespace

// inferStep(settle, data: TensorData, protected: boolean, ...stats (see RowStatsInput::take),
//           own, lengths: IntegerArray, signatures: IntegerArray | undefined, permutations, seed: number): number
// data is dense float64 [rows, columns].
std::unique_ptr<Job> inferStepJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<InferStepJob>();
  const Napi::Value data = arguments.next();
  const bool protectedByCaller = arguments.flag();
  job->stats.take(*job, arguments);
  const std::int64_t rows = job->stats.rows, columns = job->stats.columns;
  expectMatrixShape(env, "stats", rows, columns);
  job->labels = RowLabels::take(arguments, "options.", rows, columns);
  job->input.permutations = arguments.integer();
  job->input.seed = static_cast<std::uint64_t>(arguments.integer());
  job->input.scores = static_cast<const double*>(
      holdTensor(*job, data, "sums", DType::Float64, {{rows, columns}, {columns, 1}}, protectedByCaller));
  return job;
}

}  // namespace collapsar
