// Logarithms of sums of exponentials, array by array, and of many without one or two of them. -inf stands for nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/simd/kernel_table.h"

namespace collapsar {

// exp and ln of whole vectors, and ln(e^a + e^b): one worker's, which keeps scratch.
class LogAdder {
 public:
  LogAdder();

  // values[i] -> e^values[i], in place. Values are at most 0; -inf gives 0.
  void exponentials(std::vector<double>& values, std::int64_t count);
  // values[i] -> ln values[i], in place.
  void logarithms(std::vector<double>& values, std::int64_t count);

  // out[i] = ln(e^a[i] + e^b[i]). `out` may be `a` or `b`.
  void add(const double* a, const double* b, std::int64_t count, double* out);
  void add(double a, const double* b, std::int64_t count, double* out);
  double add(double a, double b);

  double log(double value) const { return kernels_.log(value); }

  // Room for whole vectors of `count` values at least.
  static void reserve(std::vector<double>& values, std::int64_t count);

 private:
  template <class First>
  void addAll(First a, const double* b, std::int64_t count, double* out);

  const KernelTable& kernels_;
  std::vector<double> small_, sum_;
};

// ln of a sum of exponentials without some of its terms, without cancellation: beside the largest term nothing that is
// taken away is more than half of the sum, and for the largest two there are sums without them.
class LogSum {
 public:
  // Part of a sum: reference + ln(sum) is its logarithm.
  struct Part {
    double reference, sum;
  };

  // logs: [count], which must outlive what follows.
  void take(const double* logs, std::int64_t count, LogAdder& adder);

  Part all() const { return {top_[0], total_[0]}; }
  Part without(std::int64_t i) const { return i == largest_ ? Part{top_[1], total_[1]} : without(i, 1.0); }
  // Without a share of term i, which is below 1 if it is the largest one.
  Part without(std::int64_t i, double share) const { return {top_[0], total_[0] - share * term_[0][at(i)]}; }
  Part without(std::int64_t i, std::int64_t j) const {
    if (i != largest_ && j != largest_) return {top_[0], total_[0] - term_[0][at(i)] - term_[0][at(j)]};
    const std::int64_t other = i == largest_ ? j : i;
    if (other == second_) return {top_[2], total_[2]};
    return {top_[1], total_[1] - term_[1][at(other)]};
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::int64_t largest_ = -1, second_ = -1;
  // All terms; those without the largest; those without the largest two. Each relative to its own largest.
  double top_[3] = {}, total_[3] = {};
  std::vector<double> term_[3];
};

}  // namespace collapsar
