// The kernels for avx2; an empty table where this file is not compiled for it.
#include "kernel_table.h"
#include "logit_kernel_table.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "vec_avx2.h"
// After the vectors that it is written in.
#include "kernels.inl.h"
// After those, whose lanes and exponentials it shares.
#include "logit_kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kAvx2Kernels = &kTable;
extern const LogitKernelTable* const kAvx2LogitKernels = &kLogitTable;
}  // namespace collapsar
#else
namespace collapsar {
extern const KernelTable* const kAvx2Kernels = nullptr;
extern const LogitKernelTable* const kAvx2LogitKernels = nullptr;
}  // namespace collapsar
#endif
