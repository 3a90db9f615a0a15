// What the kernels of one instruction set offer to logitStats: see kernel_table.h, whose rules hold here too.
#pragma once

#include <stdint.h>

namespace collapsar {

constexpr int kLogitBlock = 4096;  // columns between two looks at the reference point
constexpr int kLogitLeaf = 16384;  // columns summed by themselves: what threads share a long row by

// Σ e^((x-reference)/T) and Σ e^((x-reference)/T) (x-reference) over the columns of a leaf.
template <class C>
struct LogitSums {
  double reference;            // -inf: nothing but -inf has come
  double power, base, origin;  // how the kernels express the reference, see logit_terms.inl.h
  double s, t, sLow, tLow;     // Low: what rounding took from the sum
  C largest;
};

// One row while its columns come block by block.
template <class C>
struct LogitRow {
  double temperature;
  C target;
  bool ranked;   // count what is above and equal to the target
  bool located;  // find the column of the maximum
  bool invalid;  // a NaN or +inf has come: everything here means nothing
  LogitSums<C> leaf;
  C best;  // the largest so far of all leaves, and its lowest column; -1 where nothing but -inf has come
  int64_t argmax;
  int64_t above, equal;
};

// Arrays over types stand in the order of DType: float64, float32, float16, bfloat16.
struct LogitKernelTable {
  // Takes in columns [firstColumn, firstColumn + count), count <= kLogitBlock, that lie side by side. All blocks of a
  // leaf but its last are full.
  void (*addBlock64)(const void* source, int64_t count, int64_t firstColumn, LogitRow<double>* row);
  void (*addBlock32[4])(const void* source, int64_t count, int64_t firstColumn, LogitRow<float>* row);

  // After the last block of a leaf, types of 32 bits and less: puts the largest term in exactly.
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
