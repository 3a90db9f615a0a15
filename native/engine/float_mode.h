// The floating-point mode that results are computed in: IEEE 754's, with subnormal numbers and rounding to nearest.
//
// A new thread inherits the mode of the thread that starts it, and one library linked with -ffast-math anywhere in the
// process turns subnormal numbers into 0 in it (crtfastmath.o): tied scores then no longer compare as equal.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace collapsar {

// For a thread of the engine's own, before it computes anything.
inline void setDefaultFloatMode() { std::fesetenv(FE_DFL_ENV); }

// Sets the default mode for a scope on a thread that belongs to others, whose mode comes back at the end. Where it is
// the default already, this costs one look at a register.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : changed_(!isDefault()) {
    if (!changed_) return;
    std::fegetenv(&before_);
    setDefaultFloatMode();
  }
  ~DefaultFloatMode() {
    if (changed_) std::fesetenv(&before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  static bool isDefault() {
#if defined(__x86_64__)
    return (_mm_getcsr() & ~0x3fu) == 0x1f80u;  // the low six bits say what has happened, not what shall
#elif defined(__aarch64__)
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control == 0;
#else
    return false;
#endif
  }

  bool changed_;
  std::fenv_t before_;
};

}  // namespace collapsar
