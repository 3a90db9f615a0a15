// What the kernels of one instruction set offer: plain data and function pointers, filled in by kernels_<isa>.cpp.
//
// No file that a kernel file includes may have inline functions with linkage (the standard library's included): the
// linker keeps one copy for the program, and if that is AVX-512's, every other machine dies of it.
#pragma once

#include <stdint.h>

namespace collapsar {

constexpr int kLeafTokens = 4096;    // tokens summed over the lanes before they are folded
constexpr int kTokenLanes = 32;      // float64 lanes of a token sum
constexpr int kBlockColumns = 2048;  // columns handled at a time: the block stays in the L1 cache
constexpr int kScoreLanes = 16;      // lanes of a block's exponential sums
constexpr int kVectorDoubles = 8;    // of the widest vectors there are

// A group of columns: Σ e^(x-reference), Σ e^(x-reference)(x-reference), and the first for the per-token means
// x/length. The low parts carry what rounding took from the sums.
struct GroupSums {
  double reference;  // -inf: nothing but -inf has come
  double s, sLow;
  double t;
  double sToken, sTokenLow;
  bool invalid;  // a NaN or +inf has come: the sums mean nothing
};

// One row while its columns come block by block. `others` are the columns that are not equivalent to the row's own,
// so that the leave-one-out marginal needs no subtraction; `same` are those that are.
template <class C>
struct RowState {
  C own;
  C best;  // the largest of the columns equivalent to own, and the first that holds it
  int32_t bestColumn;
  double length;  // max(length, 1)
  C largest;      // so far, and the first column that holds it
  int32_t argmax;
  int64_t above, equal;  // columns beside own
  int64_t before;        // columns that go before bestColumn: by falling score, ties by rising column
  GroupSums others, same;
};

// Where a block of a row is put in the type that it is computed in.
template <class C>
struct BlockScratch {
  C others[kBlockColumns + kScoreLanes];
  C same[kBlockColumns + kScoreLanes];
};

constexpr int kBatchRows = 16;       // rows finished at a time
constexpr int kNarrowColumns = 256;  // up to so many, each row is a lane

// GroupSums of several rows. t is NaN where a NaN or +inf has come.
struct BatchSums {
  double reference[kBatchRows], s[kBatchRows], t[kBatchRows], sToken[kBatchRows];
};

// Of several rows what is final: own's score, and places among the columns as RowState has them.
struct BatchPlaces {
  double own[kBatchRows];
  int32_t argmax[kBatchRows], above[kBatchRows], equal[kBatchRows], before[kBatchRows];
};

// Where the statistics of kBatchRows rows are written. One NaN, whatever the machine makes, where they are undefined.
struct BatchFields {
  double *matchedSeq, *matchedToken, *marginalSeq, *marginalToken, *looMarginalSeq, *looMarginalToken,
      *posteriorEntropy;
};

// Rows that are lanes: `length` goes in, the rest comes out.
template <class C>
struct NarrowRows {
  double length[kBatchRows];  // max(length, 1)
  BatchSums others, same;
  BatchPlaces places;
  C own[kBatchRows], ownLabel[kBatchRows], scale[4][kBatchRows];  // the kernel's own
};
template <class C>
struct NarrowScratch {
  C x[kNarrowColumns * kBatchRows];
};

// Arrays over types stand in the order of DType: float64, float32, float16, bfloat16.
struct KernelTable {
  // Of each of `count` segments the sum of its tokens, side by side from data + start (in elements), and nothing
  // beyond.
  void (*sumSegments[4])(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums);

  // The same, of at most kLeafTokens tokens each, for tokens that are in a cache already: nothing is asked for ahead.
  void (*sumNearSegments[4])(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count,
                             double* sums);

  // Adds tokens of one leaf to its lanes; all calls of a leaf but the last bring a multiple of 32 tokens.
  void (*addTokens[4])(const void* tokens, int64_t count, double* lanes);
  double (*foldTokens)(const double* lanes);

  // Takes in columns [firstColumn, firstColumn + count), count <= kBlockColumns, that lie side by side. `same` lists
  // those among them that are equivalent to the row's own, rising.
  void (*addColumns64)(const void* source, int64_t count, int64_t firstColumn, const int32_t* same, int64_t sameCount,
                       RowState<double>* row, BlockScratch<double>* scratch);
  void (*addColumns32[4])(const void* source, int64_t count, int64_t firstColumn, const int32_t* same,
                          int64_t sameCount, RowState<float>* row, BlockScratch<float>* scratch);

  // Takes in `count` <= kBatchRows rows of at most kNarrowColumns columns, strides in elements. `labels` says of each
  // column which it is equivalent to; null if they are all distinct.
  void (*addNarrowRows64)(const void* source, int64_t rowStride, int64_t columnStride, int count, int columns,
                          const int32_t* own, const double* labels, NarrowRows<double>* rows,
                          NarrowScratch<double>* scratch);
  void (*addNarrowRows32[4])(const void* source, int64_t rowStride, int64_t columnStride, int count, int columns,
                             const int32_t* own, const float* labels, NarrowRows<float>* rows,
                             NarrowScratch<float>* scratch);

  // logOthers: ln(number of columns not equivalent to own); unused if there are none.
  void (*finishRows)(const BatchSums* others, const BatchSums* same, const double* own, const double* lengths,
                     double logColumns, const double* logOthers, int count, const BatchFields* out);
  double (*log)(double value);

  // deterministicExp and deterministicLog of each of `count` values, bit for bit. Whole vectors are read and written:
  // both arrays go on to a multiple of kVectorDoubles. `out` may be `values`.
  void (*exponentials)(const double* values, int64_t count, double* out);
  void (*logarithms)(const double* values, int64_t count, double* out);
};

// Null where the file was compiled for another architecture.
extern const KernelTable* const kBaselineKernels;
extern const KernelTable* const kNeonKernels;
extern const KernelTable* const kAvx2Kernels;
extern const KernelTable* const kAvx512Kernels;

// That of activeIsa().
const KernelTable& kernels();

}  // namespace collapsar
