// The kernels, written once over FloatVec and DoubleVec, and their table. Each kernels_<isa>.cpp includes its vectors,
// then this.
//
// The same bits everywhere: a fixed number of virtual lanes, the same IEEE operations in the same order in every lane,
// and lanes folded by halves. Nothing may be contracted, reassociated or approximated (-ffp-contract=off).

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
