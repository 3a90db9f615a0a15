// What the texts look like: repetition, what siblings share, and the phrases that all prompts share.
#pragma once

#include <string>
#include <vector>

#include "ngrams.h"
#include "used_rows.h"

namespace collapsar {

// A run of tokens of which every 4-gram is in the texts of at least max(3, half) of the prompts.
struct TemplatePhrase {
  std::string text;               // its tokens, joined by spaces
  std::vector<std::int64_t> ids;  // its tokens, where the log has ids
  std::int64_t tokens, prompts;   // how many it has; how many hold all of it
  double share;                   // mean over used rows of the share of tokens that lie in it
};
constexpr std::size_t kMostPhrases = 10;

struct TextForm {
  double templateShare;
  double siblingNovelty, repetition;  // NaN: no row has what they are made of
  std::vector<TemplatePhrase> phrases;
};

// Throws std::bad_alloc.
Outcome textForm(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, TextForm& out, ThreadPool& pool,
                 JobControl& control);

// Mean over used rows of the share of tokens that lie in a phrase, for each of `phrases`: [phrases.texts().count].
Outcome phraseShares(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes& phrases, double* shares,
                     ThreadPool& pool, JobControl& control);

}  // namespace collapsar
