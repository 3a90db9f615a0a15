// Which 4-grams make the template, and the longest runs of them.
#pragma once

#include "hash_shards.h"
#include "text_form.h"

namespace collapsar {

// 4-grams that many prompts have, and how many.
struct TemplateGrams {
  HashNumbers numbers;
  std::vector<std::uint32_t> prompts;
};

// A maximal run of template 4-grams: tokens [first, first + tokens) of a used row.
struct TemplateRun {
  std::int64_t row, first, tokens;
};

// The phrases that most prompts hold, then those that cover most tokens, then by text. Of more than kMostCandidates
// different runs, those are looked at whose rarest 4-gram most prompts have, then the longest.
// runs: by rising row. Throws std::bad_alloc.
Outcome templatePhrases(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, const TemplateGrams& grams,
                        const std::vector<TemplateRun>& runs, std::vector<TemplatePhrase>& out, ThreadPool& pool,
                        JobControl& control);
constexpr std::size_t kMostCandidates = 1000;

}  // namespace collapsar
