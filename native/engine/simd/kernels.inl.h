// The kernels, written once over FloatVec and DoubleVec, and the table of them. Each kernels_<isa>.cpp includes its
// vectors and then this file; the files that this one includes find the vectors there.
//
// The same bits everywhere: the work is laid out over a fixed number of virtual lanes, whatever the width of the
// machine's vectors, every lane does the same IEEE operations in the same order, and lanes are folded by halves. No
// operation may be contracted, reassociated or approximated (compile with -ffp-contract=off). See kernel_table.h for
// why nothing of the standard library may be included.

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// After the pragma, which holds for them.
#include "finish_rows.inl.h"
#include "kernel_table.h"
#include "memory_token_sums.inl.h"
#include "narrow_rows.inl.h"
#include "near_token_sums.inl.h"
#include "token_sums.inl.h"
#include "vector_math.inl.h"
#include "wide_rows.inl.h"

namespace collapsar {
namespace {

constexpr KernelTable kTable = {
    {sumSegmentsOf<double>, sumSegmentsOf<float>, sumSegmentsOf<Float16>, sumSegmentsOf<BFloat16>},
    {sumNearSegmentsOf<double>, sumNearSegmentsOf<float>, sumNearSegmentsOf<Float16>, sumNearSegmentsOf<BFloat16>},
    {addTokensOf<double>, addTokensOf<float>, addTokensOf<Float16>, addTokensOf<BFloat16>},
    foldTokens,
    addColumnsOf<double, double>,
    {nullptr, addColumnsOf<float, float>, addColumnsOf<Float16, float>, addColumnsOf<BFloat16, float>},
    addNarrowRowsOf<double, double>,
    {nullptr, addNarrowRowsOf<float, float>, addNarrowRowsOf<Float16, float>, addNarrowRowsOf<BFloat16, float>},
    finishRowsOf,
    logAlone,
    exponentialsOf,
    logarithmsOf,
};

}  // namespace
}  // namespace collapsar
