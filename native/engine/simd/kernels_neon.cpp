// The kernels for neon; an empty table where this file is not compiled for it.
#include "kernel_table.h"

#if defined(__aarch64__)
#include "vec_neon.h"
// After the vectors that it is written in.
#include "kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kNeonKernels = &kTable;
}
#else
namespace collapsar {
extern const KernelTable* const kNeonKernels = nullptr;
}
#endif
