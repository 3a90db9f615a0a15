// A sum of doubles that is exact, so that no order can change it (docs/reference/metrics.md, Exactness).
#pragma once

#include <cstdint>

namespace collapsar {

// A fixed-point number wide enough for 2^31 of any finite doubles, after R. M. Neal, "Fast exact summation using small
// and large superaccumulators" (arXiv 1505.05571): chunks of 32 value bits in 64-bit integers, carried rarely. NaN and
// infinities are counted apart.
class ExactSum {
 public:
  void add(double value);
  void addProduct(double a, double b);  // exactly a*b (error-free transform by fma; a*b must not under- or overflow)
  double round() const;  // the sum, correctly rounded to nearest even; NaN/inf as IEEE addition would give

 private:
  static constexpr int kChunks = 67;
  void propagate();
  std::int64_t chunk_[kChunks] = {};
  std::int64_t pending_ = 0;  // adds since the last propagate()
  std::int64_t nan_ = 0, positiveInfinity_ = 0, negativeInfinity_ = 0;
};

}  // namespace collapsar
