// The kernels for avx512; an empty table where this file is not compiled for it.
#include "kernel_table.h"
#include "logit_kernel_table.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__FMA__)
#include "vec_avx512.h"
// After the vectors that it is written in.
#include "kernels.inl.h"
// After those, whose lanes and exponentials it shares.
#include "logit_kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kAvx512Kernels = &kTable;
extern const LogitKernelTable* const kAvx512LogitKernels = &kLogitTable;
}  // namespace collapsar
#else
namespace collapsar {
extern const KernelTable* const kAvx512Kernels = nullptr;
extern const LogitKernelTable* const kAvx512LogitKernels = nullptr;
}  // namespace collapsar
#endif
