// A row's scored log terms -> the log of their total over all columns, with its bias and sampling variance: the heart
// of cheaper scoring (docs/guide/cheaper-scoring.md).
//
// A stratum of N prompts (C columns), n of them drawn, has the total C sum(y) / sum(c), y = c exp S and c the columns
// of a prompt: Horvitz-Thompson with weights N/n, normalised (Hajek 1971). Its log is biased (Jensen). The expected log
// of k draws is smooth in 1/k, and subsets of the draws show it at k = n, n - 1, n - 2: it is extended to k = N. With
// two points that is the jackknife with finite-population correction, with three its second order (Schucany, Gray and
// Owen 1971). Where few columns carry most of the total, that is not enough: `upper` errs to the other side. It shares
// ln(1 + T/own) out as y/T ln(1 + T/own), each share weighted by N/n, the term known and the rest estimated from the
// other draws.
#pragma once

#include <cstdint>
#include <vector>

#include "log_sums.h"

namespace collapsar {

// Beyond so many draws a second order is not worth n^2 terms: the bias left is of order 1/n^2.
constexpr std::int64_t kSecondOrderDraws = 32;

// The drawn prompts of one stratum at one temperature, with what is computed from them again and again: one worker's.
class StratumLogs {
 public:
  // logOf: ln of the whole numbers up to all columns. [draws] logs, of all the columns of a prompt together, and those
  // columns; of the whole stratum its prompts and columns.
  void take(const double* logs, const std::int32_t* counts, std::int64_t draws, std::int64_t size, std::int64_t columns,
            const double* logOf, LogAdder& adder);

  std::int64_t draws() const { return draws_; }
  std::int64_t size() const { return size_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t drawnColumns() const { return drawn_; }
  bool whole() const { return draws_ == size_; }
  double log(std::int64_t i) const { return logs_[i]; }
  const double* logs() const { return logs_; }
  std::int32_t count(std::int64_t i) const { return counts_[i]; }

  // ln of the estimated total.
  double all() const { return all_; }
  // ln of the sum over the draws, as it is.
  double sum() const { return sum_; }
  // [draws] the same without each of them.
  const double* sumWithout() const { return sumWithout_.data(); }
  // [draws] ln of the estimated total without each of the draws.
  const double* without() const { return without_.data(); }
  // Whether the following is there: for at most kSecondOrderDraws draws that are not all.
  bool hasPairs() const { return draws_ >= 3 && draws_ <= kSecondOrderDraws && !whole(); }
  // [draws (draws - 1) / 2] ln of the estimated total without i and j, for all i > j.
  void withoutPairs(std::vector<double>& out) const;
  // ln of the total of the columns other than those of draw i, estimated from the other draws; from those but j.
  double othersOf(std::int64_t i) const;
  double othersOf(std::int64_t i, std::int64_t j) const;
  // [draws] ln of the estimated total without one column of draw i, and without one that is not drawn.
  void withoutColumn(std::vector<double>& drawn, double& notDrawn, LogAdder& adder) const;

 private:
  static std::size_t pairOf(std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i);
  }

  const double* logs_ = nullptr;
  const std::int32_t* counts_ = nullptr;
  const double* logOf_ = nullptr;
  std::int64_t draws_ = 0, size_ = 0, columns_ = 0, drawn_ = 0;
  double all_ = 0, sum_ = 0;
  LogSum terms_;
  std::vector<double> sumWithout_, without_;
  std::vector<double> pairSum_;  // at pairOf(i, j): ln of the sum over the draws without i and j
};

struct LogTotal {
  double plain;           // log of the estimated total as it is
  double value;           // the same with its bias taken out; what to use
  double lastCorrection;  // by how much the last order of correction moved it: as large as the bias left, or larger
  double upper;           // errs upwards where `value` errs downwards (too few draws); -inf without an own prompt
  double variance;        // of `value` over draws of negatives, by the jackknife
};

// One worker's.
class LogTotals {
 public:
  explicit LogTotals(LogAdder& adder) : adder_(adder) {}

  // ownLog: ln of what is known without drawing, -inf where nothing is. Gives ln(e^ownLog + total of all strata), nats.
  LogTotal estimate(double ownLog, const StratumLogs* strata, int count);

 private:
  double secondOrder(const StratumLogs& stratum, double others, double plain, double one);
  double crossed(const StratumLogs& a, const StratumLogs& b, double ownLog);
  double sharedOut(double ownLog, const StratumLogs* strata, int count);

  void takeShares(double ownLog, std::int64_t n, std::int64_t shares);

  LogAdder& adder_;
  std::vector<double> ones_, pairs_;
  std::vector<double> known_, part_, others_, small_, own_, share_;  // of sharedOut()
};

}  // namespace collapsar
