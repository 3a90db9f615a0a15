// What the kernels of one instruction set offer to logitStats: see kernel_table.h, whose rules hold here too.
#pragma once

#include <stdint.h>

#include "kernel_table.h"

namespace collapsar {

constexpr int kLogitRun = 256;            // columns between two looks at the reference point
constexpr int kLogitLeafColumns = 32768;  // columns summed by themselves: what threads share a long row by

// Where the exponentials of a leaf are taken from.
struct LogitReference {
  double value;                // -inf: nothing but -inf has come
  double power, base, origin;  // how the kernels express it, see logit_terms.inl.h
};

// Sums that are still in lanes; nothing is in them until they are filled.
struct LogitLanes {
  bool filled;
  double s[kScoreLanes], t[kScoreLanes], sLow[kScoreLanes], tLow[kScoreLanes];
};

// Σ e^((x-reference)/T) and Σ e^((x-reference)/T) (x-reference) over the columns of a leaf.
template <class C>
struct LogitLeaf {
  LogitReference reference;
  double s, t, sLow, tLow;  // without the lanes; Low: what rounding took from the sum
  C largest;
  LogitLanes lanes;
};

// One row while its columns come.
template <class C>
struct LogitRow {
  double temperature;
  LogitReference start;  // where each leaf begins: what the row's first run asks for
  C target;              // +inf where columns are not ranked
  bool ranksAlong;       // for speed alone: how it went with the columns before, see Ranking
  bool located;          // find the column of the maximum
  bool invalid;          // a NaN or +inf has come (NaN: known when the leaf is finished): everything here means nothing
  LogitLeaf<C> leaf;
  C best;  // the largest so far of all leaves, and its lowest column; -1 where nothing but -inf has come
  int64_t argmax;
  int64_t above, equal;
};

// Arrays over types stand in the order of DType: float64, float32, float16, bfloat16.
struct LogitKernelTable {
  // Before a row's first leaf: sets `start`. The source holds the row's first run, or the whole of a shorter row.
  void (*beginRow64)(const void* source, int64_t columns, LogitRow<double>* row);
  void (*beginRow32[4])(const void* source, int64_t columns, LogitRow<float>* row);

  // Takes in columns [firstColumn, firstColumn + count) of a leaf, which lie side by side: whole runs, but for the end
  // of the row.
  void (*addColumns64)(const void* source, int64_t count, int64_t firstColumn, LogitRow<double>* row);
  void (*addColumns32[4])(const void* source, int64_t count, int64_t firstColumn, LogitRow<float>* row);

  // After the last columns of a leaf: its sums are whole.
  void (*finishLeaf64)(LogitRow<double>* row);
  void (*finishLeaf32)(LogitRow<float>* row);
};

// Null where the file was compiled for another architecture.
extern const LogitKernelTable* const kBaselineLogitKernels;
extern const LogitKernelTable* const kNeonLogitKernels;
extern const LogitKernelTable* const kAvx2LogitKernels;
extern const LogitKernelTable* const kAvx512LogitKernels;

// That of activeIsa().
const LogitKernelTable& logitKernels();

}  // namespace collapsar
