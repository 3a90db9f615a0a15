// The kernels for avx512; an empty table where this file is not compiled for it.
#include "kernel_table.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__FMA__)
#include "vec_avx512.h"
// After the vectors that it is written in.
#include "kernels.inl.h"

namespace collapsar {
extern const KernelTable* const kAvx512Kernels = &kTable;
}
#else
namespace collapsar {
extern const KernelTable* const kAvx512Kernels = nullptr;
}
#endif
