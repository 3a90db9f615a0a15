// The kernels for any machine.
#include "kernel_table.h"
#include "vec_baseline.h"
// After the vectors that it is written in.
#include "kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kBaselineKernels = &kTable;
}
