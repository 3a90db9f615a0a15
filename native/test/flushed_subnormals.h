// The floating-point mode that a library linked with -ffast-math leaves in a thread.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace collapsar::test {

// On the calling thread, for a scope.
class FlushedSubnormals {
 public:
  FlushedSubnormals() {
    std::fegetenv(&before_);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    asm volatile("msr fpcr, %0" : : "r"(control | std::uint64_t{1} << 24));
#endif
  }
  ~FlushedSubnormals() { std::fesetenv(&before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

  static constexpr bool possible() {
#if defined(__x86_64__) || defined(__aarch64__)
    return true;
#else
    return false;
#endif
  }

 private:
  std::fenv_t before_;
};

// Whether the calling thread computes with subnormal numbers.
inline bool keepsSubnormals() {
  volatile double smallest = 0x1p-1022;
  volatile double half = smallest * 0.5;
  return half * 0x1p100 != 0.0;
}

}  // namespace collapsar::test
