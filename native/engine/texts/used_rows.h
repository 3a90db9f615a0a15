// Which rows the text figures are made of, in an order that depends on their content alone
// (docs/reference/text-figures.md).
#pragma once

#include <cstdint>
#include <vector>

#include "texts.h"

namespace collapsar {

// Why a step has no text figures.
enum class TextProblem {
  None,
  TooFewRows,     // fewer than two prompts have two rows with a token, and some such row's prompt is not known
  TooFewPrompts,  // fewer than two prompts have a row with a token
  PromptsDiffer,  // as TooFewRows, and the prompts are known, but a group has several
};

// Used rows are numbered prompt by prompt, in a prompt by place. Prompts are in the order of their groups' ids.
struct UsedRows {
  TextProblem problem = TextProblem::None;
  std::int64_t rows = 0, prompts = 0;  // R, P
  int folds = 0;                       // F; 1 by prompts
  bool byPrompts = false;              // the prompts' texts alone speak
  bool promptsKnown = false;

  std::vector<std::int64_t> row;         // [R]: its number in the step
  std::vector<std::int32_t> prompt;      // [R]: in [0, P)
  std::vector<std::uint8_t> fold;        // [R]
  std::vector<std::int64_t> position;    // [R]: in the order of keys
  std::vector<double> weight;            // [R]: adds up to 1
  std::vector<std::int64_t> atPosition;  // [R]: the used row at each position
  std::vector<std::int64_t> firstRow;    // [P + 1]
  std::vector<std::int32_t> promptText;  // [P]: in promptTexts; where prompts are known
  std::int64_t duplicates = 0;           // rows whose tokens another row of the prompt has
  std::int64_t duplicatesAcross = 0;     // rows whose tokens a row of another prompt has

  std::int64_t place(std::int64_t used) const {
    return used - firstRow[static_cast<std::size_t>(prompt[static_cast<std::size_t>(used)])];
  }
};

UsedRows usedRows(const TextRows& step, const TokenHashes& tokens);

}  // namespace collapsar
