// Engine.stepMoments: a step's row statistics -> exact means, deviations and hit counts.
#include <vector>

#include "engine/step_moments.h"
#include "node/arguments/row_labels.h"
#include "node/arguments/row_stats.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class StepMomentsJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    moments = stepMoments(stats.checked(), labels.rows().lengths, stats.rows);
    return Outcome::Done;
  }

  Napi::Value result(Napi::Env env) override {
    // In the order of src/engine/operations/step-moments.ts.
    std::vector<double> numbers{static_cast<double>(moments.rows)};
    for (const Moments& each :
         {moments.matchedToken, moments.marginalToken, moments.matchedSeq, moments.marginalSeq, moments.excessSeq,
          moments.excessToken, moments.excessPerToken, moments.looExcessSeq, moments.posteriorEntropy}) {
      numbers.insert(numbers.end(), {each.mean, each.std});
    }
    for (const auto hits : moments.hits) numbers.push_back(static_cast<double>(hits));
    return numbersOf(env, numbers);
  }

  RowStatsInput stats;
  RowLabels labels;

 private:
  StepMoments moments{};
};

}  // namespace

// stepMoments(settle, ...stats (see RowStatsInput::take), own, lengths: IntegerArray,
//             signatures: IntegerArray | undefined): number
std::unique_ptr<Job> stepMomentsJob(Arguments& arguments) {
  auto job = std::make_unique<StepMomentsJob>();
  job->stats.take(*job, arguments);
  expectMatrixShape(arguments.env(), "stats", job->stats.rows, job->stats.columns);
  job->labels = RowLabels::take(arguments, "labels.", job->stats.rows, job->stats.columns);
  return job;
}

}  // namespace collapsar
