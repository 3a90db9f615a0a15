// Computes the figures of each prompt, and how its rows stand under every prompt, by the predictor of the bound.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "row_scores.h"
#include "text_bound.h"

namespace collapsar {

// Means over a prompt's rows, weighted as in the bound, which is the mean over prompts of `mi`.
struct TextPrompts {
  std::vector<std::int32_t> group;      // [P]: whose rows these are
  std::vector<std::int64_t> rows;       // [P]
  std::vector<double> mi;               // [P]: ln(P q(own))
  std::vector<double> retrieval;        // [P]
  std::vector<std::uint8_t> posterior;  // [P, P] q(p); 255: 1. Empty where the scores were too many to be kept
  std::vector<std::uint16_t> nats;      // [P, P] float16: ln(P q(p))
};

// groups: of the step's rows. Same bits for any number of threads.
Outcome textPrompts(const UsedRows& rows, const std::int32_t* groups, const RowScores& scores, const TextBound& bound,
                    TextPrompts& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
