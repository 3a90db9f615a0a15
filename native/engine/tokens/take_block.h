// What a claimed block of a step adds to it: the sums of what it holds whole, and leaves with the tokens of the rest.
#pragma once

#include "engine/job_control.h"
#include "engine/score_stats.h"
#include "engine/thread_pool.h"
#include "step_tokens.h"
#include "sum_tokens.h"

namespace collapsar {

// scores: the block's prompts and rows, `block.from` its token 0; `lengths`: of whole rows, 0 in the others. Computes
// what StepTokens::commit() takes; if cancelled, the step is as before. Throws std::bad_alloc.
Outcome takeTokens(const StepTokens& step, TokenBlock& block, const TokenScores& scores, ThreadPool& pool,
                   JobControl& control);

// The same of sums [rows, prompts] of whole rows; what comes for rows without tokens is taken in by commit().
Outcome takeSums(const StepTokens& step, TokenBlock& block, const ScoreMatrix& sums, ThreadPool& pool,
                 JobControl& control);

}  // namespace collapsar
