// Actions shuffled many times -> how often chance gives at least what was seen: the counts behind the p-values of
// I(X;A), I(Z;A|X) and oscillating actions (docs/reference/verdicts.md). One generator draws all shuffles, on one
// thread, in some ten nanoseconds a row; cancelling and progress go by shuffles.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/job_control.h"
#include "xoshiro.h"

namespace collapsar {

// Actions over the rows of prompts. growth[n]: what the (n + 1)-th row of a cell (prompt, action) adds to sum n ln n.
struct ActionTable {
  std::vector<std::int32_t> kinds;     // [rows]: number of each row's action, in [0, kindCount)
  std::vector<std::int32_t> byPrompt;  // [rows]: rows, those of one prompt together
  std::vector<std::int32_t> sizes;     // [prompts]: rows of each, in the order of byPrompt
  std::vector<double> growth;          // [rows]
  std::int32_t kindCount;
};
struct ActionDependence {
  double logs;               // sum n ln n over the cells
  std::int64_t occupied;     // cells with rows
  std::int64_t asDependent;  // of `shuffles` orders of the actions: in how many the sum is as large, up to rounding
};
Outcome actionDependence(const ActionTable& actions, std::int64_t shuffles, Xoshiro128 random, JobControl& control,
                         ActionDependence* found);

// *reached: of `shuffles` orders of the reasonings within each prompt, in how many the sum of the actions' log-probs
// reaches `least`. squares: for each prompt [size, size], the log-prob of an action under a reasoning.
Outcome matchedOrders(const double* squares, const std::vector<std::int32_t>& sizes, double least,
                      std::int64_t shuffles, Xoshiro128 random, JobControl& control, std::int64_t* reached);

struct PeriodicEpisodes {
  std::int64_t periodic;    // episodes with A-B-A-B somewhere, A != B
  std::int64_t asPeriodic;  // of `shuffles` orders of the actions within each episode: in how many there are as many
};
// actions: of all episodes, one after the other.
Outcome periodicEpisodes(const std::vector<std::int32_t>& actions, const std::vector<std::int32_t>& lengths,
                         std::int64_t shuffles, Xoshiro128 random, JobControl& control, PeriodicEpisodes* found);

}  // namespace collapsar
