// exp and log of a double, below one ulp of error, the same bits on every machine: IEEE operations only. Free of the
// standard library and of functions with linkage, for the kernel files include it (simd/kernel_table.h).
#pragma once

#include <stdint.h>

namespace collapsar {
namespace {

// ln 2 in two parts: the first has 42 bits, so that its product with an exponent is exact.
constexpr double kLog2e = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
// Adding this rounds to the nearest integer, which then stands in the low bits of the sum.
constexpr double kRoundingShift = 0x1.8p+52;

// Minimax (weighted Remez) on |r| <= ln2/2: e^r = 1 + r + r^2 (c0 + c1 r + ...), relative error 3.7e-18.
constexpr double kExpCoefficients[10] = {
    0x1.000000000000ap-1,  0x1.55555555554f9p-3,  0x1.55555555507f0p-5,  0x1.1111111127e84p-7,  0x1.6c16c1844b169p-10,
    0x1.a01a0129b3910p-13, 0x1.a01999ad92f8ep-16, 0x1.71df262eff9cep-19, 0x1.28adcea59dc85p-22, 0x1.ad7efd27c7744p-26};

// Entry j: the bits of 2^(j/8) as a float, less j << 20, an eighth of an exponent's step each. So entry n mod 8 plus
// n << 20 are the bits of 2^(n/8).
constexpr uint32_t kEighthPowers[8] = {0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7,
                                       0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};

// Minimax on 0 <= z <= ((sqrt2-1)/(sqrt2+1))^2: 2 atanh(s) = 2s + s z (c0 + c1 z + ...), z = s^2, error 2.5e-18 of s z.
constexpr double kLogCoefficients[7] = {0x1.5555555555593p-1, 0x1.999999997fb32p-2, 0x1.2492494217991p-2,
                                        0x1.c71c51e7fd53ep-3, 0x1.7466462b6d2aap-3, 0x1.39a0f51da2d8ap-3,
                                        0x1.2f0d8d9237a8ap-3};

// For cutting a number at powers of two times sqrt(1/2): the bits of sqrt(1/2); what makes every exponent positive; and
// 2^52, whose low bits are an integer.
constexpr uint64_t kLogCut = 0x3fe6a09e667f3bcdu;
constexpr uint64_t kSignificandBits = 0x000fffffffffffffu;
constexpr uint64_t kExponentBias = uint64_t{1024} << 52;
constexpr uint64_t kTwo52Bits = 0x4330000000000000u;
constexpr double kTwo52AndBias = 0x1p52 + 1024;

inline __attribute__((always_inline)) uint64_t bitsOf(double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline __attribute__((always_inline)) double fromBits(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// high + low += x, where low takes what rounding loses (Knuth's two-sum).
inline __attribute__((always_inline)) void addExactly(double& high, double& low, double x) {
  const double sum = high + x;
  const double part = sum - high;
  low += (high - (sum - part)) + (x - part);
  high = sum;
}

// e^x for x <= 709; 0 below -708 (no subnormal results: whoever calls adds it to something near 1).
inline __attribute__((always_inline)) double deterministicExp(double x) {
  if (x < -708.0) return 0.0;
  const double shifted = __builtin_fma(x, kLog2e, kRoundingShift);
  const double n = shifted - kRoundingShift;
  const double r = __builtin_fma(n, -kLn2Low, __builtin_fma(n, -kLn2High, x));
  double q = kExpCoefficients[9];
  for (int i = 8; i >= 0; i--) q = __builtin_fma(q, r, kExpCoefficients[i]);
  const double p = __builtin_fma(r, __builtin_fma(r, q, 1.0), 1.0);
  return fromBits(bitsOf(p) + (bitsOf(shifted) << 52));
}

// ln x for normal, finite x > 0; -inf for 0.
inline __attribute__((always_inline)) double deterministicLog(double x) {
  if (x == 0.0) return -__builtin_inf();
  // x = 2^k m with m in [sqrt(1/2), sqrt 2): subtracting sqrt(1/2)'s bits puts the cut of the exponent there.
  const uint64_t bits = bitsOf(x);
  const int64_t exponent = static_cast<int64_t>(bits - kLogCut) >> 52;
  const double m = fromBits(bits - (static_cast<uint64_t>(exponent) << 52));
  const double k = static_cast<double>(exponent);
  const double f = m - 1.0;  // exact
  const double s = f / (2.0 + f);
  const double z = s * s;
  double q = kLogCoefficients[6];
  for (int i = 5; i >= 0; i--) q = __builtin_fma(q, z, kLogCoefficients[i]);
  // 2s = f - s f, so ln m = f - s (f - z q): the large term f is exact.
  const double small = __builtin_fma(-s, __builtin_fma(-z, q, f), k * kLn2Low);
  return __builtin_fma(k, kLn2High, f + small);
}

}  // namespace
}  // namespace collapsar
