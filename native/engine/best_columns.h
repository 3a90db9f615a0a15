// The best k columns of a row: by falling score, NaN first; ties by rising column.
#pragma once

#include <cstdint>

#include "score_stats.h"

namespace collapsar {

// Whether score a goes before b.
template <class C>
inline bool isHigher(C a, C b) {
  return b == b && (a != a || a > b);
}

// Takes columns by rising number; none with NaN, if not kWithNaN.
template <class C, int kMost, bool kWithNaN = true>
class BestColumns {
 public:
  explicit BestColumns(int size = kMost) : size_(size) {}

  void take(C score, std::int32_t column) {
    const auto isFirst = [](C a, C b) { return kWithNaN ? isHigher(a, b) : a > b; };
    if (filled_ == size_ && !isFirst(score, scores_[size_ - 1])) return;
    int place = filled_ < size_ ? filled_++ : size_ - 1;
    for (; place > 0 && isFirst(score, scores_[place - 1]); place--) {
      scores_[place] = scores_[place - 1];
      columns_[place] = columns_[place - 1];
    }
    scores_[place] = score;
    columns_[place] = column;
  }

  const std::int32_t* columns() const { return columns_; }
  int count() const { return filled_; }

 private:
  int size_;        // wanted, from 1
  int filled_ = 0;  // there
  C scores_[kMost];
  std::int32_t columns_[kMost];
};

// Writes [rows, topK] columns, 1 <= topK <= kMaxTopK and topK <= columns.
Outcome nameBestColumns(const ScoreMatrix& scores, int topK, std::int32_t* out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
