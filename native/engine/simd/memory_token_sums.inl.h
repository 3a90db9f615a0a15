// Token sums of segments that come from memory, which keeps up only if enough of it is asked for in advance: the
// machine's own prefetching stops at the end of each page and segment.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/prefetch.h"
#include "kernel_table.h"
#include "short_token_sums.inl.h"
#include "token_sums.inl.h"

namespace collapsar {
namespace {

// The cache lines that hold tokens, segment after segment, asked for into one of the caches.
template <class T, Cache kInto>
class LineCursor {
 public:
  // Asks for the first `lines`.
  COLLAPSAR_INLINE LineCursor(const T* tokens, const int64_t* starts, const int64_t* lengths, int64_t count, int lines)
      : tokens_(tokens), starts_(starts), lengths_(lengths), count_(count) {
    enter();
    for (int i = 0; i < lines; i++) ask();
  }

  // Asks for the next line; in the end for the last one again.
  COLLAPSAR_INLINE void ask() {
    askFor<kInto>(line_);
    if (line_ + kLineBytes < end_) {
      line_ += kLineBytes;
    } else {
      segment_++;
      enter();
    }
  }

 private:
  COLLAPSAR_INLINE void enter() {
    while (segment_ < count_ && lengths_[segment_] == 0) segment_++;
    if (segment_ >= count_) return;
    const T* const from = tokens_ + starts_[segment_];
    line_ = reinterpret_cast<uintptr_t>(from) / kLineBytes * kLineBytes;
    end_ = reinterpret_cast<uintptr_t>(from + lengths_[segment_]);
  }

  const T* tokens_;
  const int64_t* starts_;
  const int64_t* lengths_;
  int64_t count_, segment_ = 0;
  uintptr_t line_ = 0, end_ = 0;
};

// Lines prefetched beyond the one that is added: 10% less time than prefetching the same places of a later segment (512
// tokens, half of them valid) or the next one's head (4096; Zen 5). By way of the L2 cache: 2% to 8% less (Emerald
// Rapids).
constexpr int kLinesAhead = 80, kLinesNear = 16;

// One segment; for each of its lines each cursor asks for one.
template <class T, class... Cursor>
COLLAPSAR_INLINE double sumSegment(const T* tokens, int64_t count, Cursor&... ahead) {
  constexpr int kLines = static_cast<int>(kTokenLanes * sizeof(T) / kLineBytes);
  static_assert(kLines > 0);
  const uintptr_t firstLine = reinterpret_cast<uintptr_t>(tokens) / kLineBytes;
  const uintptr_t endLine = (reinterpret_cast<uintptr_t>(tokens + count) + kLineBytes - 1) / kLineBytes;
  auto lines = static_cast<int64_t>(endLine - firstLine);
  double total = 0.0;
  while (count > 0) {
    const int64_t leaf = count < kLeafTokens ? count : kLeafTokens;
    TokenSum sum = splat<DoubleVec, kTokenLanes>(0.0);
    int64_t t = 0;
    for (; t + kTokenLanes <= leaf; t += kTokenLanes, lines -= kLines) {
#pragma GCC unroll 4
      for (int line = 0; line < kLines; line++) (ahead.ask(), ...);
      add32(sum, tokens + t);
    }
    addFirst(sum, tokens + t, static_cast<int>(leaf - t));
    total += reduceSum<kTokenLanes>(sum);
    tokens += leaf;
    count -= leaf;
  }
  for (; lines > 0; lines--) (ahead.ask(), ...);
  return total;
}

template <class T>
void sumSegmentsOf(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums) {
  const T* tokens = static_cast<const T*>(data);
  const bool l2First = asksL2First();
  if (kHasMaskload<T> && longestOf(lengths, count) <= kShortTokens) {
    return l2First ? sumShortSegments<Asking::L2First>(tokens, starts, lengths, count, sums)
                   : sumShortSegments<Asking::L1>(tokens, starts, lengths, count, sums);
  }
  if (l2First) {
    LineCursor<T, Cache::L2> far(tokens, starts, lengths, count, kLinesAhead);
    LineCursor<T, Cache::L1> near(tokens, starts, lengths, count, kLinesNear);
    for (int64_t i = 0; i < count; i++) sums[i] = sumSegment(tokens + starts[i], lengths[i], far, near);
  } else {
    LineCursor<T, Cache::L1> ahead(tokens, starts, lengths, count, kLinesAhead);
    for (int64_t i = 0; i < count; i++) sums[i] = sumSegment(tokens + starts[i], lengths[i], ahead);
  }
}

}  // namespace
}  // namespace collapsar
