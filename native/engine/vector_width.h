// Loops that the compiler turns into vectors by itself, compiled for several widths of them: the same IEEE operations
// in the same order, so the same bits. For what is too small to be a kernel (simd/).
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define COLLAPSAR_AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define COLLAPSAR_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2")))
#else
#define COLLAPSAR_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,prefer-vector-width=512")))
#endif
#endif

// Before a loop whose writes overlap nothing else: spares the compiler run-time checks, or giving up.
#if defined(__clang__)
#define COLLAPSAR_NO_OVERLAP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define COLLAPSAR_NO_OVERLAP _Pragma("GCC ivdep")
#else
#define COLLAPSAR_NO_OVERLAP
#endif

namespace collapsar {

// The widest of this machine for which there is such a loop: 16, 32 or 64.
inline int vectorBytes() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const int bytes = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
                               ? 64
                           : __builtin_cpu_supports("avx2") ? 32
                                                            : 16;
  return bytes;
#else
  return 16;
#endif
}

}  // namespace collapsar
