// The best columns of a block, taken into the list of the row's best so far. Those of rows that are lanes:
// narrow_top_columns.inl.h.
#pragma once

#include <stdint.h>

#include "block_groups.inl.h"
#include "block_scan.inl.h"
#include "kernel_table.h"
#include "scalars.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// Puts (x, column) into its place; columns come rising, so that among equals the earlier stays ahead.
template <class C>
COLLAPSAR_INLINE void insert(TopList<C>& top, C x, int32_t column) {
  int place = top.filled < top.size ? top.filled++ : top.size - 1;
  for (; place > 0 && x > top.value[place - 1]; place--) {
    top.value[place] = top.value[place - 1];
    top.column[place] = top.column[place - 1];
  }
  top.value[place] = x;
  top.column[place] = column;
}

// The size-th largest of 16 values, none of which is NaN, or -inf. Without a branch, which would be guessed wrong.
template <class V>
COLLAPSAR_INLINE typename V::Scalar sizethLargest(const Wide<V, kScoreLanes>& values, int size) {
  using C = typename V::Scalar;
  constexpr int kParts = Wide<V, kScoreLanes>::kParts;
  const V one = set(static_cast<C>(1));
  C value[kScoreLanes];
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) store(value + p * V::kLanes, values.part[p]);
  // Of how many values each is above, counted in four parts: an addition waits for the one before.
  const Wide<V, kScoreLanes> none = fill<V, kScoreLanes>(0);
  Wide<V, kScoreLanes> lower[4] = {none, none, none, none}, held;
  for (int i = 0; i < kScoreLanes; i += 4) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) {
        lower[j].part[p] = addWhere(greater(values.part[p], set(value[i + j])), lower[j].part[p], one);
      }
    }
  }
  const V most = set(static_cast<C>(kScoreLanes - size));
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) {
    const V all = add(add(lower[0].part[p], lower[1].part[p]), add(lower[2].part[p], lower[3].part[p]));
    held.part[p] = select(greater(all, most), set(-static_cast<C>(kInfinity)), values.part[p]);
  }
  return foldLarger<V, kScoreLanes>(held);
}

// Visits, by rising column, what `bound` is not at least as large as, until `visit` is false. Of 64 columns the first
// two visits are made in any case, and count only if they are meant: guessing how many there are costs more.
template <class V, class Visit>
COLLAPSAR_INLINE void eachCandidate(const ScanCounters<V>& scan, int64_t columns, typename V::Scalar bound,
                                    Visit visit) {
  uint64_t candidates[kBlockColumns / 64];
  const typename V::Scalar* places[kBlockColumns / 64];
  int begins[kBlockColumns / 64];
  int list[kBlockGroups], listed = 0, words = 0;
  for (int g = 0; g * kGroupColumns < columns; g++) {
    list[listed] = g;
    listed += any(below(set(bound), scan.groupLargest[g]));
  }
  for (int i = 0; i < listed; i++) {
    const int g = list[i];
    const auto* x = scan.groups.from[g];
    const int64_t here = columns - g * kGroupColumns;
    for (int half = 0; half < kGroupColumns && half < here; half += 64) {
      uint64_t word = 0;
#pragma GCC unroll 32
      for (int at = 0; at < 64; at += V::kLanes) {
        word |= uint64_t{laneBits(below(set(bound), load(x + half + at)))} << at;
      }
      if (here - half < 64) word &= (uint64_t{1} << (here - half)) - 1;  // behind stand an earlier block's
      candidates[words] = word;
      places[words] = x + half;
      begins[words] = g * kGroupColumns + half;
      words += word != 0;
    }
  }
  for (int w = 0; w < words; w++) {
    const auto* x = places[w];
    const int first = __builtin_ctzll(candidates[w]);
    bool going = visit(x[first], begins[w] + first, true);
    uint64_t rest = candidates[w] & (candidates[w] - 1);
    const int second = __builtin_ctzll(rest | uint64_t{1} << 63);  // there is memory, if no candidate
    going &= visit(x[second], begins[w] + second, rest != 0);
    for (rest &= rest - 1; rest != 0 && going; rest &= rest - 1) {
      const int next = __builtin_ctzll(rest);
      going = visit(x[next], begins[w] + next, true);
    }
    if (!going) return;
  }
}

// The candidates for the list are what the bound is not at least as large as; all, where it is NaN.
//
// `size` of the 16 lanes' maxima are at least as large as the size-th of them, and so only columns that are, too, are
// candidates: of a row's first block a few more than `size`, where taking columns as they come would insert
// size ln(columns/size) times, each a branch mispredicted or two (a third of the time at 1024 columns).
template <class V, class C>
COLLAPSAR_INLINE C boundOf(const TopList<C>& top, const ScanCounters<V>& scan) {
  constexpr C kNone = -static_cast<C>(kInfinity);
  const C bound = sizethLargest(scan.largest, top.size);
  const bool full = top.filled == top.size;
  const C last = full ? top.value[top.size - 1] : kNone;
  return full && last >= bound ? last : bound == kNone ? static_cast<C>(kUndefined) : nextBelow(bound);
}

// Takes the best of a block into the list. Candidates are put in order by counting, for each, how many go before it,
// again without a branch.
template <class V, class C>
COLLAPSAR_INLINE void collectTop(TopList<C>& top, int64_t columns, int32_t firstColumn, const ScanCounters<V>& scan,
                                 C bound) {
  constexpr int kParts = Wide<V, kScoreLanes>::kParts;

  // The list as it stands, and behind it what comes later.
  C value[kScoreLanes + 3];
  int32_t column[kScoreLanes + 3];
  for (C& free : value) free = static_cast<C>(kUndefined);  // NaN goes before nothing
  int count = top.filled;
  for (int i = 0; i < count; i++) {
    value[i] = top.value[i];
    column[i] = top.column[i];
  }
  eachCandidate(
      scan, columns, bound, [&](C x, int at, bool meant) __attribute__((always_inline)) {
        value[count] = x;
        column[count] = firstColumn + at;
        count += meant;
        return count <= kScoreLanes;
      });
  if (count > kScoreLanes) {  // unlucky (one row in twenty), or many alike, or NaN: one by one
    eachCandidate(
        scan, columns, bound, [&](C x, int at, bool meant) __attribute__((always_inline)) {
          if (meant && (top.filled < top.size || x > top.value[top.size - 1])) {
            insert(top, x, firstColumn + at);
          }
          return true;
        });
    return;
  }

  value[count] = static_cast<C>(kUndefined);  // a visit that was not meant
  Wide<V, kScoreLanes> all;
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) all.part[p] = load(value + p * V::kLanes);
  C sorted[kScoreLanes] = {};  // with NaN, places stay free: the row is looked at anew
  int32_t sortedColumn[kScoreLanes] = {};
  for (int i = 0; i < count; i++) {
    uint32_t before = 0, alike = 0;
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
      before |= laneBits(greater(all.part[p], set(value[i]))) << p * V::kLanes;
      alike |= laneBits(equal(all.part[p], set(value[i]))) << p * V::kLanes;
    }
    const int place = __builtin_popcount(before | (alike & ((1u << i) - 1)));
    sorted[place] = value[i];
    sortedColumn[place] = column[i];
  }
  top.filled = top.size;
  for (int i = 0; i < top.size; i++) {
    top.value[i] = sorted[i];
    top.column[i] = sortedColumn[i];
  }
}

}  // namespace
}  // namespace collapsar
