// Finds what this CPU and operating system can run, and keeps the choice.
#include "isa.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "engine/simd/kernel_table.h"
#include "engine/simd/logit_kernel_table.h"

namespace collapsar {

namespace {

constexpr Isa kAll[] = {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512};  // rising preference

const KernelTable* tableOf(Isa isa) {
  switch (isa) {
    case Isa::Baseline:
      return kBaselineKernels;
    case Isa::Neon:
#if defined(__aarch64__)
      return kNeonKernels;
#else
      return nullptr;
#endif
    case Isa::Avx2:
#if defined(__x86_64__)
      // The compiler's runtime also asks XGETBV. Every CPU with AVX2 has F16C, which not every compiler can ask for.
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Kernels;
#endif
      return nullptr;
    case Isa::Avx512:
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2") &&
          tableOf(Isa::Avx2) != nullptr) {
        return kAvx512Kernels;
      }
#endif
      return nullptr;
  }
  return nullptr;
}

// The supported one of that name, else false.
bool find(const char* name, Isa& found) {
  for (const Isa isa : kAll) {
    if (std::strcmp(name, isaName(isa)) == 0 && isaSupported(isa)) {
      found = isa;
      return true;
    }
  }
  return false;
}

Isa choose() {
  Isa isa = Isa::Baseline;
  const char* wanted = std::getenv("COLLAPSAR_ISA");
  if (wanted != nullptr && find(wanted, isa)) return isa;
  for (const Isa candidate : kAll) {
    if (isaSupported(candidate)) isa = candidate;
  }
  return isa;
}

std::atomic<Isa>& active() {
  static std::atomic<Isa> isa{choose()};
  return isa;
}

}  // namespace

const char* isaName(Isa isa) {
  switch (isa) {
    case Isa::Baseline:
      return "baseline";
    case Isa::Neon:
      return "neon";
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
  }
  return "";
}

bool isaSupported(Isa isa) { return tableOf(isa) != nullptr; }

Isa activeIsa() { return active().load(std::memory_order_relaxed); }

bool forceIsa(const char* name) {
  Isa isa;
  if (!find(name, isa)) return false;
  active().store(isa, std::memory_order_relaxed);
  return true;
}

const KernelTable& kernels() { return *tableOf(activeIsa()); }

const LogitKernelTable& logitKernels() {
  const Isa isa = activeIsa();
#if defined(__aarch64__)
  if (isa == Isa::Neon) return *kNeonLogitKernels;
#elif defined(__x86_64__)
  if (isa == Isa::Avx512) return *kAvx512LogitKernels;
  if (isa == Isa::Avx2) return *kAvx2LogitKernels;
#endif
  (void)isa;  // elsewhere there is one only
  return *kBaselineLogitKernels;
}

}  // namespace collapsar
