// What code is written in that is compiled for the GPU and, for the tests, for the host: how functions and loops are
// marked, infinities and NaN, and numbers from their bits. Without the standard library, which the device may not call.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define COLLAPSAR_BOTH __host__ __device__ __forceinline__
#define COLLAPSAR_UNROLLED _Pragma("unroll")
#define COLLAPSAR_ROLLED _Pragma("unroll 1")
#define COLLAPSAR_ROLLED_BY_4 _Pragma("unroll 4")
#else
#define COLLAPSAR_BOTH inline __attribute__((always_inline))
#define COLLAPSAR_UNROLLED _Pragma("GCC unroll 32")
#define COLLAPSAR_ROLLED _Pragma("GCC unroll 1")
#define COLLAPSAR_ROLLED_BY_4 _Pragma("GCC unroll 4")
#endif

namespace collapsar::cuda {

constexpr double kHugeDouble = HUGE_VAL;
constexpr float kHugeFloat = HUGE_VALF;

// An infinity or NaN of either type, without <limits>, whose functions the device may not call.
template <class C>
COLLAPSAR_BOTH C infinity() {
  return static_cast<C>(kHugeFloat);
}
COLLAPSAR_BOTH double undefined() { return static_cast<double>(NAN); }

COLLAPSAR_BOTH double doubleOfBits(uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

COLLAPSAR_BOTH uint64_t bitsOfDouble(double value) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint64_t>(__double_as_longlong(value));
#else
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

COLLAPSAR_BOTH float floatOfBits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

COLLAPSAR_BOTH uint32_t bitsOfFloat(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

}  // namespace collapsar::cuda
