// The kernels for any machine.
#include "kernel_table.h"
#include "logit_kernel_table.h"
#include "vec_baseline.h"
// After the vectors that it is written in.
#include "kernels.inl.h"
// After those, whose lanes and exponentials it shares.
#include "logit_kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kBaselineKernels = &kTable;
extern const LogitKernelTable* const kBaselineLogitKernels = &kLogitTable;
}  // namespace collapsar
