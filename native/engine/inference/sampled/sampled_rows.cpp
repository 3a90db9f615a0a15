#include "sampled_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace collapsar {

namespace {

// The columns' turns, numbered from 0 by rising turn; all 0 without turns.
std::vector<std::int32_t> numbered(const std::int64_t* turn, std::int64_t columns) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(columns), 0);
  if (turn == nullptr) return numbers;
  std::vector<std::int64_t> turns(turn, turn + columns);
  std::sort(turns.begin(), turns.end());
  turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
  for (std::int64_t p = 0; p < columns; p++) {
    const auto place = std::lower_bound(turns.begin(), turns.end(), turn[p]) - turns.begin();
    numbers[static_cast<std::size_t>(p)] = static_cast<std::int32_t>(place);
  }
  return numbers;
}

bool usable(double score) { return score < std::numeric_limits<double>::infinity(); }

}  // namespace

Strata::Strata(const std::int32_t* signature, const std::int64_t* turn, std::int64_t columns)
    : count_(static_cast<std::size_t>(columns), 0),
      first_(static_cast<std::size_t>(columns), -1),
      turn_(numbered(turn, columns)),
      strata_(static_cast<std::size_t>(columns), 0),
      stratum_(2 * static_cast<std::size_t>(columns)) {
  members_.resize(columns > 0 ? at(*std::max_element(turn_.begin(), turn_.end())) + 1 : 0);
  for (std::int32_t p = 0; p < columns; p++) {
    if (count_[at(signature[p])]++ == 0) {
      first_[at(signature[p])] = p;
      distinct_++;
    }
    members_[at(turn_[at(p)])].push_back(signature[p]);
  }
  std::vector<std::int64_t> columnsOf;  // of each turn's members
  for (auto& members : members_) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    std::int64_t all = 0;
    for (const std::int32_t member : members) all += count(member);
    columnsOf.push_back(all);
  }
  for (std::int32_t p = 0; p < columns; p++) {
    const std::size_t t = at(turn_[at(p)]);
    const auto members = static_cast<std::int64_t>(members_[t].size());
    const Stratum both[] = {{members - 1, columnsOf[t] - count(signature[p]), true},
                            {distinct_ - members, columns - columnsOf[t], false}};
    for (const Stratum& stratum : both) {
      if (stratum.size > 0) stratum_[2 * at(p) + static_cast<std::size_t>(strata_[at(p)]++)] = stratum;
    }
  }
}

int Strata::stratumOf(std::int32_t column, std::int32_t signature) const {
  if (strata(column) < 2) return 0;
  const auto& of = members(turnOf(column));
  return std::binary_search(of.begin(), of.end(), signature) ? 0 : 1;
}

ScoredRows::ScoredRows(const SampledPairs& input, const Strata& strata, SampledInference& out)
    : prompts_(static_cast<std::size_t>(input.pairs)) {
  std::vector<std::int64_t> end(static_cast<std::size_t>(input.rows) + 1, 0);  // of each row's prompts, as they come in
  for (std::int64_t i = 0; i < input.pairs; i++) end[static_cast<std::size_t>(input.row[i]) + 1]++;
  for (std::size_t r = 1; r < end.size(); r++) end[r] += end[r - 1];
  for (std::int64_t i = 0; i < input.pairs; i++) {
    const std::int32_t r = input.row[i], column = input.own[r], signature = input.signature[i];
    const bool isOwn = signature == input.columnSignature[column];
    prompts_[static_cast<std::size_t>(end[static_cast<std::size_t>(r)]++)] = {
        signature, isOwn ? -1 : strata.stratumOf(column, signature), input.sum[i]};
  }
  const auto before = [](const ScoredPrompt& a, const ScoredPrompt& b) {
    return std::tie(a.stratum, a.signature) < std::tie(b.stratum, b.signature);
  };
  out.wrongRow = -1;
  out.complete = true;
  ScoredPrompt* next = prompts_.data();
  for (std::int64_t r = 0; r < input.rows; r++) {
    ScoredPrompt* const first = next;
    next = prompts_.data() + end[static_cast<std::size_t>(r)];
    if (first == next && input.length[r] == 0) continue;
    std::sort(first, next, before);
    bool isRight = first != next && input.length[r] > 0 && first->stratum == -1;
    ScoredRow row{input.own[r], input.length[r], first, next - first - 1, {0, 0}};
    for (const ScoredPrompt* prompt = first + 1; prompt < next; prompt++) {
      if (prompt[-1].signature == prompt->signature || prompt->stratum < 0) isRight = false;
      if (prompt->stratum >= 0) row.drawn[prompt->stratum]++;
    }
    for (int h = 0; h < strata.strata(row.own); h++) {
      isRight = isRight && row.drawn[h] > 0;
      out.complete = out.complete && row.drawn[h] == strata.stratum(row.own, h).size;
    }
    if (!isRight) {
      out.wrongRow = r;
      return;
    }
    const auto index = static_cast<std::int32_t>(r);
    if (!std::isfinite(first->score) ||
        !std::all_of(first, next, [](const ScoredPrompt& prompt) { return usable(prompt.score); })) {
      out.nonFinite.push_back(index);
    } else if (std::all_of(first, next, [](const ScoredPrompt& prompt) { return prompt.score == 0; })) {
      // Only 0: under a few prompts of many, any other score may be the same by chance.
      out.placeholders.push_back(index);
    } else {
      rows_.push_back(row);
      own_.push_back(row.own);
      lengths_.push_back(row.length);
    }
  }
}

}  // namespace collapsar
