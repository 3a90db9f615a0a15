// 16-byte vectors, from memory that no kernel writes while it is read. kKept: the first-level cache keeps them, for
// they are read again soon. Else they pass it by, so that what is read once does not push other data out of it.
#pragma once

#include "element_vectors.h"

namespace collapsar::cuda {

template <bool kKept>
__device__ __forceinline__ Vector loadVector(const Vector* from) {
#if defined(__CUDA_ARCH__)
  Vector v;
  if constexpr (kKept) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                 : "l"(from));
  } else {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                 : "l"(from));
  }
  return v;
#else
  return *from;
#endif
}

// Copies to shared memory while the thread goes on: what is on its way takes no registers. Not kept in the first level.
__device__ __forceinline__ void startCopy(Vector* to, const Vector* from) {
#if defined(__CUDA_ARCH__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(address), "l"(from) : "memory");
#else
  *to = *from;
#endif
}

// What this thread has started to copy is there, for itself.
__device__ __forceinline__ void awaitCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

// Into v, which stays as it is if there is nothing to load. A predicate alone: behind a branch of its own each load has
// its address computed anew, or the compiler makes copies of all that may be loaded.
template <bool kKept>
__device__ __forceinline__ void loadIf(bool wanted, const Vector* from, Vector& v) {
#if defined(__CUDA_ARCH__)
  if constexpr (kKept) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"
                 : "+r"(v.words[0]), "+r"(v.words[1]), "+r"(v.words[2]), "+r"(v.words[3])
                 : "l"(from), "r"(static_cast<int>(wanted)));
  } else {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"
                 : "+r"(v.words[0]), "+r"(v.words[1]), "+r"(v.words[2]), "+r"(v.words[3])
                 : "l"(from), "r"(static_cast<int>(wanted)));
  }
#else
  if (wanted) v = *from;
#endif
}

}  // namespace collapsar::cuda
