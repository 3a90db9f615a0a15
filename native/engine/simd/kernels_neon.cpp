// The kernels for neon; an empty table where this file is not compiled for it.
#include "kernel_table.h"
#include "logit_kernel_table.h"

#if defined(__aarch64__)
#include "vec_neon.h"
// After the vectors that it is written in.
#include "kernels.inl.h"
// After those, whose lanes and exponentials it shares.
#include "logit_kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kNeonKernels = &kTable;
extern const LogitKernelTable* const kNeonLogitKernels = &kLogitTable;
}  // namespace collapsar
#else
namespace collapsar {
extern const KernelTable* const kNeonKernels = nullptr;
extern const LogitKernelTable* const kNeonLogitKernels = nullptr;
}  // namespace collapsar
#endif
