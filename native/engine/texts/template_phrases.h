// Which 4-grams make the template, and the longest runs of them.
#pragma once

#include "text_form.h"

namespace collapsar {

// 4-grams that many prompts have, numbered; looked up by hash.
class TemplateGrams {
 public:
  TemplateGrams() = default;
  // Throws std::bad_alloc. All different.
  TemplateGrams(std::vector<std::uint64_t> hashes, std::vector<std::uint32_t> prompts);

  bool empty() const { return hashes_.empty(); }
  std::int64_t count() const { return static_cast<std::int64_t>(hashes_.size()); }
  std::uint32_t prompts(std::int32_t gram) const { return prompts_[static_cast<std::size_t>(gram)]; }

  // -1 where the template lacks it.
  std::int32_t find(std::uint64_t hash) const {
    for (std::uint64_t slot = slotOf(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
      const std::int32_t gram = slots_[slot];
      if (gram < 0 || hashes_[static_cast<std::size_t>(gram)] == hash) return gram;
    }
  }

 private:
  std::uint64_t slotOf(std::uint64_t hash) const { return hash * 0x9e3779b97f4a7c15u >> shift_; }

  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> prompts_;
  std::vector<std::int32_t> slots_;
  int shift_ = 63;
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
