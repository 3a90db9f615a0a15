// Pairs in any order -> rows with their scores, and the prompts that each row's negatives were drawn from.
#pragma once

#include <cstdint>
#include <vector>

#include "infer_pairs.h"

namespace collapsar {

// Prompts other than the own one that negatives are drawn from with the same probability.
struct Stratum {
  std::int64_t size, columns;  // different prompts, and columns that they stand for
  bool ofTurn;                 // those of the own column's turn; else the others
};

// The strata of every column: all other prompts, or those of its own turn and those of none, without empty ones.
class Strata {
 public:
  Strata(const std::int32_t* signature, const std::int64_t* turn, std::int64_t columns);

  // How many columns share a signature; the lowest of them.
  std::int32_t count(std::int32_t signature) const { return count_[at(signature)]; }
  std::int32_t first(std::int32_t signature) const { return first_[at(signature)]; }
  std::int64_t distinct() const { return distinct_; }

  // Of a column; its strata are numbered from 0.
  int strata(std::int32_t column) const { return strata_[at(column)]; }
  const Stratum& stratum(std::int32_t column, int h) const { return stratum_[2 * at(column) + static_cast<size_t>(h)]; }
  // Which of them a signature other than the column's own is of.
  int stratumOf(std::int32_t column, std::int32_t signature) const;

  // Turns are numbered from 0, or there is one; signatures that some column of the turn has, ascending.
  std::int32_t turns() const { return static_cast<std::int32_t>(members_.size()); }
  std::int32_t turnOf(std::int32_t column) const { return turn_[at(column)]; }
  const std::vector<std::int32_t>& members(std::int32_t turn) const { return members_[at(turn)]; }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  std::vector<std::int32_t> count_, first_, turn_;
  std::vector<std::vector<std::int32_t>> members_;
  std::vector<int> strata_;
  std::vector<Stratum> stratum_;
  std::int64_t distinct_ = 0;
};

// One scored prompt of a row.
struct ScoredPrompt {
  std::int32_t signature;
  int stratum;  // -1: the own prompt
  double score;
};

// A row that is used: the own prompt, then its negatives by stratum and rising signature.
struct ScoredRow {
  std::int32_t own;  // column
  std::int64_t length;
  const ScoredPrompt* prompts;
  std::int64_t negatives;  // prompts beside the own one
  std::int64_t drawn[2];   // of each stratum
};

// What is proportional to pairs and rows is held here.
class ScoredRows {
 public:
  // Rows that cannot be used are told in `out`: wrongRow, nonFinite, placeholders, complete.
  ScoredRows(const SampledPairs& input, const Strata& strata, SampledInference& out);

  const std::vector<ScoredRow>& rows() const { return rows_; }
  // [rows] of those used.
  const std::vector<std::int32_t>& own() const { return own_; }
  const std::vector<std::int64_t>& lengths() const { return lengths_; }

 private:
  std::vector<ScoredPrompt> prompts_;
  std::vector<ScoredRow> rows_;
  std::vector<std::int32_t> own_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace collapsar
