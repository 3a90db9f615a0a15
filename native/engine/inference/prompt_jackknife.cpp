// Every row tells what it would say without each prompt; sums over rows, then the spread over prompts.
#include "prompt_jackknife.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/special_values.h"

namespace collapsar {

namespace {

constexpr int kPartBits = 48;
constexpr double kPartScale = 0x1p48, kMostWhole = 0x1p48, kRounder = 0x1.8p52;
constexpr std::int64_t kPartMask = (std::int64_t{1} << kPartBits) - 1;

// Terms further below the row's largest are computed anew: exp() gives 0 below -708.
constexpr double kTinyOwn = -640;

std::size_t wholeVectors(std::int64_t count) {
  return static_cast<std::size_t>((count + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles);
}

std::vector<double> rowsByPrompt(const StepColumns& columns, const PromptSubsets& subsets) {
  std::vector<double> rows(static_cast<std::size_t>(subsets.distinct), 0.0);
  for (std::size_t p = 0; p < columns.rowsOf.size(); p++) {
    rows[static_cast<std::size_t>(subsets.promptOf[p])] += static_cast<double>(columns.rowsOf[p]);
  }
  return rows;
}

}  // namespace

void FixedSums::add(std::size_t at, double value) {
  if (!(std::fabs(value) < kMostWhole)) {
    beyond_[at] = 1;
    return;
  }
  const double whole = (value + kRounder) - kRounder;  // the nearest integer
  const std::int64_t part = part_[at] + static_cast<std::int64_t>((value - whole) * kPartScale);
  whole_[at] += static_cast<std::int64_t>(whole) + (part >> kPartBits);
  part_[at] = part & kPartMask;
}

void FixedSums::add(const FixedSums& other) {
  for (std::size_t i = 0; i < whole_.size(); i++) {
    const std::int64_t part = part_[i] + other.part_[i];
    whole_[i] += other.whole_[i] + (part >> kPartBits);
    part_[i] = part & kPartMask;
    beyond_[i] |= other.beyond_[i];
  }
}

double FixedSums::at(std::size_t at) const {
  if (beyond_[at] != 0) return kNaN;
  return static_cast<double>(whole_[at]) + static_cast<double>(part_[at]) / kPartScale;
}

PromptJackknife::PromptJackknife(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets)
    : input_(input),
      subsets_(subsets),
      kernels_(kernels()),
      distinct_(subsets.distinct),
      rowsOf_(rowsByPrompt(columns, subsets)),
      allOfOwn_(rowsOf_.size()),
      all_(rowsOf_.size()),
      pairsOfOwn_(rowsOf_.size()),
      pairsOfOther_(rowsOf_.size()) {
  if (distinct_ < 3) return;
  for (int size = 1; size < subsets.sizes && (std::int64_t{2} << size) < distinct_; size++) {
    draws_.emplace_back(rowsOf_.size());
  }
  for (auto* scratch : {&term_, &drawn_, &rest_, &log_, &gain_}) scratch->resize(wholeVectors(distinct_));
  member_.resize(static_cast<std::size_t>(distinct_));
}

void PromptJackknife::add(std::int64_t r, const double* terms, double top, const std::vector<double>& among) {
  if (distinct_ < 3) return;
  const std::int32_t own = input_.labels.own[r];
  const std::int64_t prompt = subsets_.promptOf[own];
  const double* const scores = input_.scores + r * input_.columns;
  for (std::int64_t q = 0; q < distinct_; q++) term_[q] = terms[subsets_.representative[q]];
  addAll(prompt, scores[own] - top, top, scores);
  addPairs(prompt, scores[own], scores);
  if (!draws_.empty()) addDraws(prompt, top, scores[own], scores, among);
}

template <class Score>
void PromptJackknife::gainsWithout(const double* terms, std::int64_t count, double total, double* gains, Score score) {
  for (std::int64_t i = 0; i < count; i++) rest_[i] = total - terms[i];
  kernels_.logarithms(rest_.data(), count, log_.data());
  const double logTotal = kernels_.log(total);
  for (std::int64_t i = 0; i < count; i++) gains[i] = logTotal - log_[i];
  // No more than one is more than half of the total: its rest cancels, and is summed anew.
  const std::int64_t heavy = std::max_element(terms, terms + count) - terms;
  if (terms[heavy] <= 0.5 * total) return;
  double largest = -kInfinity;
  for (std::int64_t i = 0; i < count; i++) largest = i == heavy ? largest : std::max(largest, score(i));
  gains[heavy] = kInfinity;  // that of the own prompt, where all others are impossible
  if (largest == -kInfinity) return;
  for (std::int64_t i = 0; i < count; i++) rest_[i] = score(i) - largest;
  rest_[heavy] = -kInfinity;
  kernels_.exponentials(rest_.data(), count, log_.data());
  double sum = 0;
  for (std::int64_t i = 0; i < count; i++) sum += i == heavy ? 0.0 : log_[i];
  gains[heavy] = (score(heavy) - largest) + kernels_.log(total / terms[heavy]) - kernels_.log(sum);
}

void PromptJackknife::addAll(std::int64_t prompt, double excess, double top, const double* scores) {
  double total = 0;
  for (std::int64_t q = 0; q < distinct_; q++) total += term_[q];
  const auto score = [&](std::int64_t q) { return scores[subsets_.representative[q]] - top; };
  gainsWithout(term_.data(), distinct_, total, gain_.data(), score);
  const double value = excess - kernels_.log(total);
  allOfOwn_.add(static_cast<std::size_t>(prompt), value);
  for (std::int64_t q = 0; q < distinct_; q++) {
    if (q != prompt) all_.add(static_cast<std::size_t>(q), value + gain_[q]);
  }
}

void PromptJackknife::addPairs(std::int64_t prompt, double own, const double* scores) {
  for (std::int64_t q = 0; q < distinct_; q++) {
    rest_[q] = -std::fabs(scores[subsets_.representative[q]] - own);
  }
  kernels_.exponentials(rest_.data(), distinct_, log_.data());
  for (std::int64_t q = 0; q < distinct_; q++) rest_[q] = 1 + log_[q];
  kernels_.logarithms(rest_.data(), distinct_, log_.data());
  const double part = 1 / rowsOf_[static_cast<std::size_t>(prompt)];
  double total = 0;
  for (std::int64_t q = 0; q < distinct_; q++) {
    if (q == prompt) continue;
    const double pair = std::numbers::ln2 - std::max(0.0, scores[subsets_.representative[q]] - own) - log_[q];
    pairsOfOther_.add(static_cast<std::size_t>(q), pair * part);
    total += pair;
  }
  pairsOfOwn_.add(static_cast<std::size_t>(prompt), total);
}

// The draws of SubsetValues::compute(): a block of 2k places is two of k, and of what is left over none.
void PromptJackknife::addDraws(std::int64_t prompt, double top, double own, const double* scores,
                               const std::vector<double>& among) {
  const std::int32_t* const columnAt = subsets_.columnAt.data() + subsets_.orderOf[prompt] * distinct_;
  const std::int64_t ownPlace = subsets_.placeOf[prompt];
  const bool isTiny = own - top < kTinyOwn;
  for (std::size_t size = 0; size < draws_.size(); size++) {
    Draws& sums = draws_[size];
    const int level = static_cast<int>(size) + 1;
    sums.values.add(static_cast<std::size_t>(prompt), among[static_cast<std::size_t>(level)]);
    const std::int64_t k = std::int64_t{2} << level, blocks = distinct_ >> (level + 1);
    // The block that holds the own place, if any does.
    std::int64_t ownBlock = ownPlace;
    for (int i = 0; i <= level; i++) {
      const std::int64_t half = distinct_ >> (i + 1);
      if (ownBlock >= half) ownBlock -= half;
      if (ownBlock >= half) ownBlock = distinct_;
    }
    for (std::int64_t block = 0; block < blocks; block++) {
      // Its places, of which the own one or else the first makes way for the own prompt, which comes last.
      std::int64_t count = 0;
      member_[count++] = static_cast<std::int32_t>(block);
      for (int i = level; i >= 0; i--) {
        const std::int64_t half = distinct_ >> (i + 1), before = count;
        for (std::int64_t m = 0; m < before; m++) member_[count++] = static_cast<std::int32_t>(member_[m] + half);
      }
      const std::int64_t leftOut = block == ownBlock ? ownPlace : block;
      std::int64_t others = 0;
      for (std::int64_t m = 0; m < k; m++) {
        if (member_[m] != leftOut) member_[others++] = columnAt[member_[m]];
      }
      const auto score = [&](std::int64_t i) { return i < others ? scores[member_[i]] : own; };
      double highest = top;
      if (isTiny) {
        highest = own;
        for (std::int64_t i = 0; i < others; i++) highest = std::max(highest, scores[member_[i]]);
        for (std::int64_t i = 0; i < k; i++) rest_[i] = score(i) - highest;
        kernels_.exponentials(rest_.data(), k, drawn_.data());
      } else {
        for (std::int64_t i = 0; i < others; i++) {
          drawn_[i] = term_[static_cast<std::size_t>(subsets_.promptOf[member_[i]])];
        }
        drawn_[others] = term_[static_cast<std::size_t>(prompt)];
      }
      double total = 0;
      for (std::int64_t i = 0; i < k; i++) total += drawn_[i];
      gainsWithout(drawn_.data(), k, total, gain_.data(), [&](std::int64_t i) { return score(i) - highest; });
      for (std::int64_t i = 0; i < others; i++) {
        const auto other = static_cast<std::size_t>(subsets_.promptOf[member_[i]]);
        sums.gains.add(other, gain_[i]);
        sums.drawn[other]++;
      }
    }
  }
}

void PromptJackknife::merge(const PromptJackknife& other) {
  allOfOwn_.add(other.allOfOwn_);
  all_.add(other.all_);
  pairsOfOwn_.add(other.pairsOfOwn_);
  pairsOfOther_.add(other.pairsOfOther_);
  for (std::size_t i = 0; i < draws_.size(); i++) {
    draws_[i].values.add(other.draws_[i].values);
    draws_[i].gains.add(other.draws_[i].gains);
    for (std::size_t p = 0; p < rowsOf_.size(); p++) draws_[i].drawn[p] += other.draws_[i].drawn[p];
  }
}

PromptFigures PromptJackknife::figures() const {
  const OverPrompts none{kNaN, kNaN};
  PromptFigures figures{none, std::vector<OverPrompts>(static_cast<std::size_t>(subsets_.sizes), none)};
  if (distinct_ < 3) return figures;
  figures.all = ofAll();
  figures.among[0] = ofPairs();
  for (std::size_t i = 0; i < draws_.size(); i++) figures.among[i + 1] = ofDraws(i);
  if (std::int64_t{1} << subsets_.sizes == distinct_) figures.among.back() = figures.all;
  return figures;
}

double PromptJackknife::jackknife(const std::vector<double>& without) const {
  const auto prompts = static_cast<double>(distinct_);
  double mean = 0, squares = 0;
  for (const double value : without) mean += value;
  mean /= prompts;
  for (const double value : without) squares += (value - mean) * (value - mean);
  return std::sqrt((prompts - 1) / prompts * squares);
}

OverPrompts PromptJackknife::ofAll() const {
  const auto rows = static_cast<double>(input_.rows);
  double total = 0;
  std::vector<double> without;
  for (std::size_t p = 0; p < rowsOf_.size(); p++) {
    total += allOfOwn_.at(p);
    without.push_back(all_.at(p) / (rows - rowsOf_[p]));
  }
  return {total / rows + kernels_.log(static_cast<double>(distinct_)), jackknife(without)};
}

OverPrompts PromptJackknife::ofPairs() const {
  const auto prompts = static_cast<double>(distinct_);
  double total = 0, withRows = 0;
  std::vector<double> ofOwn;
  for (std::size_t p = 0; p < rowsOf_.size(); p++) {
    ofOwn.push_back(rowsOf_[p] > 0 ? pairsOfOwn_.at(p) / rowsOf_[p] : 0.0);
    total += ofOwn[p];
    withRows += rowsOf_[p] > 0 ? 1 : 0;
  }
  std::vector<double> without;
  for (std::size_t p = 0; p < rowsOf_.size(); p++) {
    const double pairs = (withRows - (rowsOf_[p] > 0 ? 1 : 0)) * (prompts - 2);
    without.push_back((total - ofOwn[p] - pairsOfOther_.at(p)) / pairs);
  }
  return {total / (withRows * (prompts - 1)), jackknife(without)};
}

OverPrompts PromptJackknife::ofDraws(std::size_t size) const {
  const Draws& sums = draws_[size];
  const auto rows = static_cast<double>(input_.rows), prompts = static_cast<double>(distinct_);
  const double share = (static_cast<double>(std::int64_t{4} << size) - 1) / (prompts - 1);
  double total = 0, meanGain = 0, drawn = 0;
  for (std::size_t p = 0; p < rowsOf_.size(); p++) {
    total += sums.values.at(p);
    if (sums.drawn[p] == 0) continue;
    meanGain += sums.gains.at(p) / static_cast<double>(sums.drawn[p]);
    drawn++;
  }
  if (drawn == 0) return {kNaN, kNaN};
  meanGain /= drawn;
  std::vector<double> without;
  for (std::size_t p = 0; p < rowsOf_.size(); p++) {
    // What no draw holds is taken to be like the others.
    const double gain = sums.drawn[p] > 0 ? sums.gains.at(p) / static_cast<double>(sums.drawn[p]) : meanGain;
    without.push_back((total - sums.values.at(p)) / (rows - rowsOf_[p]) + share * gain);
  }
  return {total / rows, jackknife(without)};
}

}  // namespace collapsar
