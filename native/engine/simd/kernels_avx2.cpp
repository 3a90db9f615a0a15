// The kernels for avx2; an empty table where this file is not compiled for it.
#include "kernel_table.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "vec_avx2.h"
// After the vectors that it is written in.
#include "kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kAvx2Kernels = &kTable;
}
#else
namespace collapsar {
extern const KernelTable* const kAvx2Kernels = nullptr;
}
#endif
