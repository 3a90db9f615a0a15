// Tokens, then the rows' order, then scores and 4-grams: each stage on all threads.
#include "text_figures.h"

#include <algorithm>
#include <optional>

#include "engine/special_values.h"

namespace collapsar {

namespace {

void measureLengths(const TokenHashes& tokens, std::int64_t rows, TextFigures& out) {
  std::int64_t sum = 0;
  out.leastTokens = rows == 0 ? 0 : tokens.count(0);
  for (std::int64_t row = 0; row < rows; row++) {
    const std::int64_t count = tokens.count(row);
    sum += count;
    out.emptyRows += count == 0;
    out.leastTokens = std::min(out.leastTokens, count);
    out.mostTokens = std::max(out.mostTokens, count);
  }
  out.meanTokens = rows == 0 ? kNaN : static_cast<double>(sum) / static_cast<double>(rows);
}

}  // namespace

Outcome textFigures(const TextRows& step, const TextOptions& options, TextFigures& out, ThreadPool& pool,
                    JobControl& control) {
  out = {};
  // Tokens, features, their scores, 4-grams. A guess where texts are words.
  control.totalUnits.store(step.texts.size() * (step.texts.bytes == nullptr ? 6 : 2), std::memory_order_relaxed);
  TokenHashes tokens(step.texts);
  if (tokens.compute(pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  std::optional<TokenHashes> promptTokens;
  if (step.prompts != nullptr) {
    promptTokens.emplace(step.promptTexts);
    if (promptTokens->compute(pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  }
  measureLengths(tokens, step.texts.count, out);
  const UsedRows rows = usedRows(step, tokens);
  out.problem = rows.problem;
  if (rows.problem != TextProblem::None) return Outcome::Done;
  out.rowsUsed = rows.rows;
  out.promptsUsed = rows.prompts;
  out.byPrompts = rows.byPrompts;
  out.promptsKnown = rows.promptsKnown;
  out.duplicateShare = static_cast<double>(rows.duplicates) / static_cast<double>(rows.rows);
  out.duplicateAcrossShare = static_cast<double>(rows.duplicatesAcross) / static_cast<double>(rows.rows);

  RowScores scores;
  const TokenHashes* const known = rows.promptsKnown ? &*promptTokens : nullptr;
  const bool keepsAll =
      options.prompts && rows.prompts <= kMostMatrixPrompts && rows.rows <= kMostKeptScores / rows.prompts;
  const Outcome scored =
      scoreRows(rows, tokens, known, options.hash, options.scoreBytes, keepsAll, scores, pool, control);
  if (scored == Outcome::Cancelled) return scored;
  out.bound = textBound(rows, scores);
  if (options.prompts) {
    const Outcome found = textPrompts(rows, step.groups, scores, out.bound, out.prompts, pool, control);
    if (found == Outcome::Cancelled) return found;
    scores.all = {};
  }
  if (options.readings > 0) {
    const Outcome read = readRows(rows, tokens, known, options.hash, scores, options.readings, options.readTokens,
                                  out.readings, pool, control);
    if (read == Outcome::Cancelled) return read;
  }
  const Outcome split = halfSplit(scores, rows.prompts, options.permutations, options.seed, out.split, pool, control);
  if (split == Outcome::Cancelled) return split;
  return textForm(rows, tokens, options.hash, out.form, pool, control);
}

Outcome phraseSharesOf(const TextRows& step, const Texts& phrases, double* shares, ThreadPool& pool,
                       JobControl& control) {
  control.totalUnits.store(step.texts.size() + phrases.size(), std::memory_order_relaxed);
  TokenHashes tokens(step.texts), phraseTokens(phrases);
  if (tokens.compute(pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  if (phraseTokens.compute(pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  const UsedRows rows = usedRows(step, tokens);
  if (rows.problem == TextProblem::None) return phraseShares(rows, tokens, phraseTokens, shares, pool, control);
  std::fill_n(shares, phrases.count, kNaN);
  return Outcome::Done;
}

}  // namespace collapsar
