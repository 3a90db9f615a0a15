// Counts behind the p-values of actions, as jobs of an engine or at once: see shuffled_actions.h.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/inference/shuffled_actions.h"
#include "node/arguments/arguments.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

Napi::Float64Array doubles(Napi::Value array, const char* name) {
  if (!array.IsTypedArray() || array.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) {
    rejectArgument(array.Env(), name, "expected a Float64Array");
  }
  return array.As<Napi::Float64Array>();
}

// state: Uint32Array of four words (src/metrics/sampling/random.ts)
Xoshiro128 generator(Napi::Value array) {
  if (!array.IsTypedArray() || array.As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array ||
      array.As<Napi::TypedArray>().ElementLength() != 4) {
    rejectArgument(array.Env(), "state", "expected a Uint32Array of four words");
  }
  const Napi::Uint32Array words = array.As<Napi::Uint32Array>();
  return Xoshiro128({words[0], words[1], words[2], words[3]});
}

std::int64_t total(const std::vector<std::int32_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

// Counts on whatever thread calls it, and tells what it has found.
template <class Found>
class CountJob : public Job {
 public:
  Outcome run(ThreadPool&) override { return count(control, &found_); }
  Napi::Value result(Napi::Env env) override { return tell(env, found_); }

  std::function<Outcome(JobControl&, Found*)> count;
  Napi::Value (*tell)(Napi::Env env, const Found& found) = nullptr;

 private:
  Found found_{};
};

}  // namespace

// actionDependence(settle, kinds, byPrompt, sizes: Int32Array, growth: Float64Array, kindCount: number,
//                  shuffles: number, state: Uint32Array): { logs, occupied, asDependent: number }
std::unique_ptr<Job> actionDependenceJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  const Napi::Value kinds = arguments.next(), byPrompt = arguments.next(), sizes = arguments.next();
  const Napi::Float64Array growth = doubles(arguments.next(), "growth");
  ActionTable actions;
  const std::int64_t kindCount = arguments.integer();
  // No more than rows: memory is asked for them.
  if (kindCount < 0 || kindCount > std::min<std::int64_t>(kMost, static_cast<std::int64_t>(growth.ElementLength()))) {
    rejectArgument(env, "kindCount", "expected no more kinds than rows");
  }
  actions.kindCount = static_cast<std::int32_t>(kindCount);
  actions.kinds = integers32(kinds, "kinds", 0, actions.kindCount - 1);
  const auto rows = static_cast<std::int64_t>(actions.kinds.size());
  actions.byPrompt = integers32(byPrompt, "byPrompt", 0, static_cast<std::int32_t>(rows - 1));
  actions.sizes = integers32(sizes, "sizes", 0, kMost);
  expectCount(env, "byPrompt", actions.byPrompt.size(), rows, "row");
  expectCount(env, "growth", growth.ElementLength(), rows, "row");
  if (total(actions.sizes) != rows) rejectArgument(env, "sizes", "expected the rows of each prompt");
  actions.growth.assign(growth.Data(), growth.Data() + rows);
  const std::int64_t shuffles = arguments.integer();
  auto job = std::make_unique<CountJob<ActionDependence>>();
  job->count = [actions = std::move(actions), shuffles, random = generator(arguments.next())](JobControl& control,
                                                                                              ActionDependence* found) {
    return actionDependence(actions, shuffles, random, control, found);
  };
  job->tell = [](Napi::Env to, const ActionDependence& found) -> Napi::Value {
    return objectOf(to, {{"logs", Napi::Number::New(to, found.logs)},
                         {"occupied", numberOf(to, found.occupied)},
                         {"asDependent", numberOf(to, found.asDependent)}});
  };
  return job;
}

// matchedOrders(settle, squares: Float64Array, sizes: Int32Array, least: number, shuffles: number,
//               state: Uint32Array): number
std::unique_ptr<Job> matchedOrdersJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<CountJob<std::int64_t>>();
  const Napi::Float64Array squares = doubles(arguments.next(), "squares");
  std::vector<std::int32_t> sizes = integers32(arguments.next(), "sizes", 0, kMost);
  __int128 expected = 0;
  for (const std::int32_t size : sizes) expected += static_cast<__int128>(size) * size;
  const auto count = static_cast<std::int64_t>(squares.ElementLength());
  if (expected != count) {
    rejectArgument(env, "squares", "expected a log-prob for each action and reasoning of a prompt");
  }
  const double least = arguments.next().As<Napi::Number>().DoubleValue();
  const std::int64_t shuffles = arguments.integer();
  // The caller made it for this call: nobody else can detach it.
  const auto* const data =
      static_cast<const double*>(holdTensor(*job, squares, "squares", DType::Float64, {{count, 1}}, true));
  job->count = [data, sizes = std::move(sizes), least, shuffles, random = generator(arguments.next())](
                   JobControl& control, std::int64_t* reached) {
    return matchedOrders(data, sizes, least, shuffles, random, control, reached);
  };
  job->tell = [](Napi::Env to, const std::int64_t& reached) -> Napi::Value { return numberOf(to, reached); };
  return job;
}

// periodicEpisodes(settle, actions, lengths: Int32Array, shuffles: number, state: Uint32Array):
//                  { periodic, asPeriodic: number }
std::unique_ptr<Job> periodicEpisodesJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  std::vector<std::int32_t> actions =
      integers32(arguments.next(), "actions", std::numeric_limits<std::int32_t>::min(), kMost);
  std::vector<std::int32_t> lengths = integers32(arguments.next(), "lengths", 0, kMost);
  if (total(lengths) != static_cast<std::int64_t>(actions.size())) {
    rejectArgument(env, "lengths", "expected the actions of each episode");
  }
  const std::int64_t shuffles = arguments.integer();
  auto job = std::make_unique<CountJob<PeriodicEpisodes>>();
  job->count = [actions = std::move(actions), lengths = std::move(lengths), shuffles,
                random = generator(arguments.next())](JobControl& control, PeriodicEpisodes* found) {
    return periodicEpisodes(actions, lengths, shuffles, random, control, found);
  };
  job->tell = [](Napi::Env to, const PeriodicEpisodes& found) -> Napi::Value {
    return objectOf(to, {{"periodic", numberOf(to, found.periodic)}, {"asPeriodic", numberOf(to, found.asPeriodic)}});
  };
  return job;
}

}  // namespace collapsar
