#include "shuffled_action_counts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/inference/shuffled_actions.h"
#include "node/arguments/arguments.h"
#include "node/results/result_value.h"

namespace collapsar {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

Napi::Float64Array doubles(Napi::Value array, const char* name) {
  if (!array.IsTypedArray() || array.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) {
    rejectArgument(array.Env(), name, "expected a Float64Array");
  }
  return array.As<Napi::Float64Array>();
}

// state: Uint32Array of four words (src/metrics/random.ts)
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

}  // namespace

// actionDependence(kinds, byPrompt, sizes: Int32Array, growth: Float64Array, kindCount: number,
//                  shuffles: number, state: Uint32Array): { logs, occupied, asDependent: number }
Napi::Value actionDependence(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const Napi::Env env = info.Env();
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
  const ActionDependence found = collapsar::actionDependence(actions, shuffles, generator(arguments.next()));
  return objectOf(env, {{"logs", Napi::Number::New(env, found.logs)},
                        {"occupied", numberOf(env, found.occupied)},
                        {"asDependent", numberOf(env, found.asDependent)}});
}

// matchedOrders(squares: Float64Array, sizes: Int32Array, least: number, shuffles: number, state: Uint32Array): number
Napi::Value matchedOrders(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const Napi::Env env = info.Env();
  const Napi::Float64Array squares = doubles(arguments.next(), "squares");
  const std::vector<std::int32_t> sizes = integers32(arguments.next(), "sizes", 0, kMost);
  __int128 expected = 0;
  for (const std::int32_t size : sizes) expected += static_cast<__int128>(size) * size;
  if (static_cast<__int128>(squares.ElementLength()) != expected) {
    rejectArgument(env, "squares", "expected a log-prob for each action and reasoning of a prompt");
  }
  const double least = arguments.next().As<Napi::Number>().DoubleValue();
  const std::int64_t shuffles = arguments.integer();
  return numberOf(env, collapsar::matchedOrders(squares.Data(), sizes, least, shuffles, generator(arguments.next())));
}

// periodicEpisodes(actions, lengths: Int32Array, shuffles: number, state: Uint32Array):
//                  { periodic, asPeriodic: number }
Napi::Value periodicEpisodes(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const Napi::Env env = info.Env();
  const std::vector<std::int32_t> actions =
      integers32(arguments.next(), "actions", std::numeric_limits<std::int32_t>::min(), kMost);
  const std::vector<std::int32_t> lengths = integers32(arguments.next(), "lengths", 0, kMost);
  if (total(lengths) != static_cast<std::int64_t>(actions.size())) {
    rejectArgument(env, "lengths", "expected the actions of each episode");
  }
  const std::int64_t shuffles = arguments.integer();
  const PeriodicEpisodes found = collapsar::periodicEpisodes(actions, lengths, shuffles, generator(arguments.next()));
  return objectOf(env, {{"periodic", numberOf(env, found.periodic)}, {"asPeriodic", numberOf(env, found.asPeriodic)}});
}

}  // namespace collapsar
