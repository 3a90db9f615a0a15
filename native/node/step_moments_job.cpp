// Engine.stepMoments: a step's row statistics -> exact means, deviations and hit counts.
#include "engine/step_moments.h"
#include "operations.h"
#include "result_value.h"
#include "row_labels.h"
#include "row_stats_input.h"

namespace collapsar {
namespace {

Napi::Value momentsOf(Napi::Env env, const Moments& moments) {
  return objectOf(env, {{"mean", Napi::Number::New(env, moments.mean)}, {"std", Napi::Number::New(env, moments.std)}});
}

class StepMomentsJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    moments = stepMoments(stats.checked(), labels.rows(), stats.rows, stats.columns);
    return Outcome::Done;
  }

  Napi::Value result(Napi::Env env) override {
    const Napi::Array hits = Napi::Array::New(env, 4);
    for (std::uint32_t k = 0; k < 4; ++k) hits.Set(k, Napi::Number::New(env, static_cast<double>(moments.hits[k])));
    return objectOf(env, {{"rows", Napi::Number::New(env, static_cast<double>(moments.rows))},
                          {"matchedToken", momentsOf(env, moments.matchedToken)},
                          {"marginalToken", momentsOf(env, moments.marginalToken)},
                          {"matchedSeq", momentsOf(env, moments.matchedSeq)},
                          {"marginalSeq", momentsOf(env, moments.marginalSeq)},
                          {"excessSeq", momentsOf(env, moments.excessSeq)},
                          {"excessToken", momentsOf(env, moments.excessToken)},
                          {"excessPerToken", momentsOf(env, moments.excessPerToken)},
                          {"looExcessSeq", momentsOf(env, moments.looExcessSeq)},
                          {"posteriorEntropy", momentsOf(env, moments.posteriorEntropy)},
                          {"hits", hits}});
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
  expectScoreShape(arguments.env(), "stats", job->stats.rows, job->stats.columns);
  job->labels = RowLabels::take(arguments, "labels.", job->stats.rows, job->stats.columns);
  return job;
}

}  // namespace collapsar
