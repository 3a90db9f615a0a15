// Rows of many columns, block by block: a block stays in the L1 cache. Rows of few columns: narrow_rows.inl.h.
#pragma once

#include <stdint.h>

#include "block_groups.inl.h"
#include "block_scan.inl.h"
#include "block_sums.inl.h"
#include "kernel_table.h"
#include "scalars.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// Prefetches while a block in the L1 cache is worked on. Addresses beyond the matrix do no harm.
constexpr uintptr_t kPrefetchBytes = 16384;

// Elements of the type that is computed in stay where they are; others are converted into the scratch.
template <class T, class C>
constexpr bool kConverted = true;
template <class C>
constexpr bool kConverted<C, C> = false;

template <class T, class C>
void addColumnsOf(const void* sourceData, int64_t columns, int64_t firstColumn, const int32_t* same, int64_t sameCount,
                  RowState<C>* rowState, BlockScratch<C>* scratch) {
  using V = typename VecOf<C>::V;
  constexpr C kNone = -static_cast<C>(kInfinity);
  const T* source = static_cast<const T*>(sourceData);
  RowState<C>& row = *rowState;
  C* x = scratch->others;

  const int64_t padded = (columns + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
  const int64_t whole = columns / kGroupColumns;
  const V own = splat(row.own);
  ScanCounters<V> scan;
  scan.largest = splat<V, kScoreLanes>(kNone);
  for (int64_t group = 0; group < whole; group++) {
    const T* from = source + group * kGroupColumns;
    Extremes<V> extremes;
#pragma GCC unroll 8
    for (int i = 0; i < kGroupColumns; i += kScoreLanes) {
      const Wide<V, kScoreLanes> value = loadLanes<V>(from + i);
      if constexpr (kConverted<T, C>) storeLanes<V>(x + group * kGroupColumns + i, value);
      scanLanes(value, own, scan, extremes);
    }
    if constexpr (kConverted<T, C>) {
      scan.groups.from[group] = x + group * kGroupColumns;
    } else {
      scan.groups.from[group] = from;
    }
    endGroup(scan, group, extremes);
  }
  if (whole * kGroupColumns < columns) {  // the last 16 are filled up with -inf
    Extremes<V> extremes;
    scan.groups.from[whole] = x + whole * kGroupColumns;
    for (int64_t i = whole * kGroupColumns; i < columns; i += kScoreLanes) {
      Wide<V, kScoreLanes> value;
#pragma GCC unroll 8
      for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
        const int64_t rest = columns - i - p * V::kLanes;
        const int lanes = rest < 0 ? 0 : rest < V::kLanes ? static_cast<int>(rest) : V::kLanes;
        value.part[p] = maskload(source + i + p * V::kLanes, lanes, kNone);
      }
      storeLanes<V>(x + i, value);
      scanLanes(value, own, scan, extremes);
    }
    endGroup(scan, whole, extremes);
  }
  const int64_t above = total(scan.above), equal = total(scan.equal) - (row.own == kNone ? padded - columns : 0);
  row.above += above;
  row.equal += equal;
  const int64_t bestAt = row.bestColumn - firstColumn;
  const bool bestHere = bestAt >= 0 && bestAt < columns;
  if (row.best == row.own && (equal <= 1 || !bestHere)) {
    row.before += bestAt >= columns ? above + equal : above;
  } else {
    row.before += countBefore(scan.groups, padded, row.best, bestAt);
  }

  C blockLargest = reduceMax<V, kScoreLanes>(scan.largest);
  if (blockLargest > row.largest) {
    row.largest = blockLargest;
    row.argmax = static_cast<int32_t>(firstColumn + firstOf(scan, blockLargest));
  }

  const uintptr_t ahead = reinterpret_cast<uintptr_t>(source) + kPrefetchBytes;
  // Own and its equivalents leave the block and make up a block of their own.
  if (sameCount > 0) {
    bool hidLargest = false;
    uint32_t changed = 0;
    static_assert(kBlockGroups <= 32);
    for (int64_t i = 0; i < sameCount; i++) {
      const int64_t at = same[i] - firstColumn, group = at / kGroupColumns;
      C* copy = x + group * kGroupColumns;
      if (scan.groups.from[group] != copy) {
        for (int j = 0; j < kGroupColumns; j += V::kLanes) store(copy + j, load(scan.groups.from[group] + j));
        scan.groups.from[group] = copy;
      }
      hidLargest |= x[at] == blockLargest;
      scratch->same[i] = x[at];
      x[at] = kNone;
      scan.groups.least[group] = splat(kNone);
      changed |= 1u << group;
    }
    if (hidLargest) blockLargest = largestOf(scan.groups, padded, scan.groupLargest, changed);
    if (sameCount == 1 && row.same.reference == -kInfinity) {
      addFirst(row.same, scratch->same[0]);
    } else {
      const int64_t samePadded = (sameCount + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
      for (int64_t i = sameCount; i < samePadded; i++) scratch->same[i] = kNone;
      Groups<V> groups;
      for (int g = 0; g * kGroupColumns < samePadded; g++) {
        groups.from[g] = scratch->same + g * kGroupColumns;
        groups.least[g] = splat(kNone);
      }
      const C sameLargest = reduceMax(largestLanes<V>(scratch->same, samePadded));
      addBlock(row.same, groups, samePadded, sameLargest, row.length, ahead, 0);
    }
  }
  addBlock(row.others, scan.groups, padded, blockLargest, row.length, ahead, kScoreLanes * sizeof(T));
}

}  // namespace
}  // namespace collapsar
