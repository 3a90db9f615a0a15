// The floating-point mode of results: IEEE 754's, with subnormal numbers and rounding to nearest. New threads inherit
// their creator's mode, which any library linked with -ffast-math may have changed (crtfastmath.o); tied scores would
// then no longer compare equal.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace collapsar {

// For a thread of the engine's own, before it computes anything.
inline void setDefaultFloatMode() { std::fesetenv(FE_DFL_ENV); }

// Sets the default mode for a scope on a thread of others, and restores theirs. Mostly costs one look at a register.
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
