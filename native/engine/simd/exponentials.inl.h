// Exponentials of scores' differences from a maximum, several vectors at once: e^d, and e^(d/length) for token means.
#pragma once

#include "engine/deterministic_math.h"
#include "kernel_table.h"

namespace collapsar {
namespace {

// e^(d) and e^(d/length) for d <= 0. Below `floor` the result is that of the floor, about 1e-38 or 1e-307: nothing
// beside the largest term, which is near 1, and so -inf needs no branch. A NaN stays one.
template <class V>
struct Exponential;

// 2^(f/8) = 1 + f (c0 + c1 f + c2 f^2) on |f| <= 1/2, minimax with the constant 1; error 2.6e-8 with float
// coefficients. Eighths: a vector holds eight powers, which spares two terms for one multiplication (logitStats +7% to
// +12%, Zen 5).
constexpr float kExp2Coefficients[3] = {0x1.62e432p-4f, 0x1.ec0c22p-9f, 0x1.c690cap-14f};
constexpr float kLog2eFloat = 0x1.715476p+0f;
constexpr float kEighthsPerNat = 8.0f * kLog2eFloat;
constexpr double kLog2eFloatLack = 1.3349758171622138639e-8;  // 1 - kLog2eFloat ln 2
constexpr float kRoundingShiftFloat = 0x1.8p+23f;

template <>
struct Exponential<FloatVec> {
  static constexpr float kFloor = -87.0f;  // 2^-125.5: the power stays a normal number
  FloatVec scaleHigh, scaleLow, floorToken;

  COLLAPSAR_INLINE explicit Exponential(double length) {
    const double scale = 8.0 * kLog2e / length;
    const float high = static_cast<float>(scale);
    scaleHigh = splat(high);
    scaleLow = splat(static_cast<float>(scale - high));
    floorToken = splat(static_cast<float>(kFloor * length));
  }

  // Of lanes that differ in length, scalesOf each.
  COLLAPSAR_INLINE Exponential(FloatVec high, FloatVec low, FloatVec floor, FloatVec)
      : scaleHigh(high), scaleLow(low), floorToken(floor) {}
  COLLAPSAR_INLINE static void scalesOf(const double* length, float (*scales)[kBatchRows]) {
    for (int lane = 0; lane < kBatchRows; lane++) {
      const double scale = 8.0 * kLog2e / length[lane];
      const float high = static_cast<float>(scale);
      scales[0][lane] = high;
      scales[1][lane] = static_cast<float>(scale - high);
      scales[2][lane] = static_cast<float>(kFloor * length[lane]);
      scales[3][lane] = 0.0f;
    }
  }

  // In two steps: what the polynomial is of, and the polynomial. blockSums corrects for log2(e) as a float.
  COLLAPSAR_INLINE static void reduce(FloatVec d, FloatVec& f, FloatVec& shifted) {
    const FloatVec shift = splat(kRoundingShiftFloat), eighths = splat(kEighthsPerNat);
    shifted = fma(d, eighths, shift);
    f = fma(d, eighths, sub(shift, shifted));
  }
  COLLAPSAR_INLINE void reduceToken(FloatVec difference, FloatVec& f, FloatVec& shifted) const {
    const FloatVec d = max(floorToken, difference), shift = splat(kRoundingShiftFloat);
    shifted = fma(d, scaleHigh, shift);
    f = fma(d, scaleLow, fma(d, scaleHigh, sub(shift, shifted)));
  }
  template <int N>
  COLLAPSAR_INLINE static void powers(const FloatVec (&f)[N], const FloatVec (&shifted)[N], FloatVec (&out)[N]) {
    FloatVec power[N];
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) power[j] = powerOfEighths(shifted[j]);
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = fma(splat(kExp2Coefficients[2]), f[j], splat(kExp2Coefficients[1]));
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = fma(out[j], f[j], splat(kExp2Coefficients[0]));
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = fma(power[j], mul(out[j], f[j]), power[j]);
  }
};

template <>
struct Exponential<DoubleVec> {
  static constexpr double kFloor = -708.0;
  DoubleVec scale, inverseHigh, inverseLow, floorToken;

  COLLAPSAR_INLINE explicit Exponential(double length) {
    const double high = 1.0 / length;
    scale = splat(kLog2e / length);
    inverseHigh = splat(high);
    inverseLow = splat(__builtin_fma(-high, length, 1.0) / length);
    floorToken = splat(kFloor * length);
  }

  COLLAPSAR_INLINE Exponential(DoubleVec scaleOf, DoubleVec high, DoubleVec low, DoubleVec floor)
      : scale(scaleOf), inverseHigh(high), inverseLow(low), floorToken(floor) {}
  COLLAPSAR_INLINE static void scalesOf(const double* lengths, double (*scales)[kBatchRows]) {
    for (int lane = 0; lane < kBatchRows; lane++) {
      const double length = lengths[lane], high = 1.0 / length;
      scales[0][lane] = kLog2e / length;
      scales[1][lane] = high;
      scales[2][lane] = __builtin_fma(-high, length, 1.0) / length;
      scales[3][lane] = kFloor * length;
    }
  }

  COLLAPSAR_INLINE static DoubleVec finish(DoubleVec r, DoubleVec shifted) {
    DoubleVec q = splat(kExpCoefficients[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) q = fma(q, r, splat(kExpCoefficients[i]));
    const DoubleVec one = splat(1.0);
    return timesPowerOf2(fma(r, fma(r, q, one), one), shifted);
  }

  COLLAPSAR_INLINE static DoubleVec of(DoubleVec d) {
    DoubleVec r, shifted;
    reduce(d, r, shifted);
    return finish(r, shifted);
  }

  // In two steps, for several at once, as above.
  COLLAPSAR_INLINE static void reduce(DoubleVec d, DoubleVec& r, DoubleVec& shifted) {
    const DoubleVec shift = splat(kRoundingShift);
    shifted = fma(d, splat(kLog2e), shift);
    const DoubleVec minusN = sub(shift, shifted);
    r = fma(minusN, splat(kLn2Low), fma(minusN, splat(kLn2High), d));
  }
  COLLAPSAR_INLINE void reduceToken(DoubleVec difference, DoubleVec& r, DoubleVec& shifted) const {
    const DoubleVec d = max(floorToken, difference), shift = splat(kRoundingShift);
    shifted = fma(d, scale, shift);
    const DoubleVec minusN = sub(shift, shifted);
    const DoubleVec high = fma(d, inverseLow, fma(d, inverseHigh, mul(minusN, splat(kLn2High))));
    r = fma(minusN, splat(kLn2Low), high);
  }
  template <int N>
  COLLAPSAR_INLINE static void powers(const DoubleVec (&r)[N], const DoubleVec (&shifted)[N], DoubleVec (&out)[N]) {
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = splat(kExpCoefficients[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) {
#pragma GCC unroll 16
      for (int j = 0; j < N; j++) out[j] = fma(out[j], r[j], splat(kExpCoefficients[i]));
    }
    const DoubleVec one = splat(1.0);
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = timesPowerOf2(fma(r[j], fma(r[j], out[j], one), one), shifted[j]);
  }
};

// e^(d/length) for d in [-length, 0]: 1 + u (c0 + c1 u + ...), u = d/length, minimax on -1 <= u <= 0 with the constant
// held at 1. The coefficients take in the powers of 1/length.
template <class C>
struct NearCoefficients;
template <>
struct NearCoefficients<float> {  // error 2.7e-8
  static constexpr double k[6] = {0x1.ffffcf3ff0064p-1, 0x1.fff927faeba03p-2, 0x1.55013604b7fa2p-3,
                                  0x1.51877c02592f4p-5, 0x1.f448366bf04d5p-8, 0x1.b94dd72e654c8p-11};
};
template <>
struct NearCoefficients<double> {  // error 5.1e-18
  static constexpr double k[12] = {0x1.ffffffffffff7p-1,  0x1.ffffffffffb78p-2,  0x1.5555555548873p-3,
                                   0x1.555555530c1dcp-5,  0x1.111110d370a4cp-7,  0x1.6c16b91c027e5p-10,
                                   0x1.a0194117a8856p-13, 0x1.a00e0bebec977p-16, 0x1.715aecf5b1645p-19,
                                   0x1.240e31f8074dap-22, 0x1.889ac71e51ba0p-26, 0x1.5b2e5376a9b4dp-30};
};
// Of longer rows the higher coefficients would be subnormal.
constexpr double kLongestNear = 65536;

template <class V>
struct NearExponential {
  using C = typename V::Scalar;
  static constexpr int kTerms = sizeof(NearCoefficients<C>::k) / sizeof(double);
  V coefficient[kTerms], farthest;

  COLLAPSAR_INLINE explicit NearExponential(double length) {
    const bool usable = length <= kLongestNear;
    const double inverse = usable ? 1.0 / length : 0.0;
    double power = inverse;
    for (int i = 0; i < kTerms; i++, power *= inverse) {
      coefficient[i] = splat(static_cast<C>(NearCoefficients<C>::k[i] * power));
    }
    farthest = splat(static_cast<C>(usable ? -length : __builtin_inf()));
  }

  // No difference lies beyond; NaN goes through either way.
  COLLAPSAR_INLINE bool reaches(V difference) const { return !any(greater(farthest, difference)); }

  template <int N>
  COLLAPSAR_INLINE void of(const V (&d)[N], V (&out)[N]) const {
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) out[j] = coefficient[kTerms - 1];
#pragma GCC unroll 16
    for (int i = kTerms - 2; i >= 0; i--) {
#pragma GCC unroll 8
      for (int j = 0; j < N; j++) out[j] = fma(out[j], d[j], coefficient[i]);
    }
    const V one = splat(static_cast<C>(1));
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) out[j] = fma(out[j], d[j], one);
  }
};

// e^d, d and the token's, of N vectors of differences. Each is a chain of 13 dependent operations: side by side they
// take 1/8 less time in float64 (float32: alike).
template <int N, class V>
COLLAPSAR_INLINE void exponentials(const V (&difference)[N], const Exponential<V>& exponential, V (&d)[N],
                                   V (&e)[2 * N]) {
  const V floor = splat(Exponential<V>::kFloor);
  V f[2 * N], shifted[2 * N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    d[j] = max(floor, difference[j]);
    Exponential<V>::reduce(d[j], f[j], shifted[j]);
    exponential.reduceToken(difference[j], f[N + j], shifted[N + j]);
  }
  Exponential<V>::powers(f, shifted, e);
}

// The same for differences in [-length, 0]: a token's exponential is then one polynomial of d, without a reduction
// and a power of two: 6 operations in float32 instead of 12, in float64 12 instead of 20.
template <int N, class V>
COLLAPSAR_INLINE void exponentials(const V (&difference)[N], const NearExponential<V>& near, V (&d)[N], V (&e)[2 * N]) {
  const V floor = splat(Exponential<V>::kFloor);
  V f[N], shifted[N], power[N], token[N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    d[j] = max(floor, difference[j]);
    Exponential<V>::reduce(d[j], f[j], shifted[j]);
  }
  Exponential<V>::powers(f, shifted, power);
  near.of(difference, token);
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    e[j] = power[j];
    e[N + j] = token[j];
  }
}

// Vectors side by side: with their constants they fit the registers, or nearly so in float64, whose chains are longer.
template <class Terms>
constexpr int kTogether = sizeof(Terms::farthest) == 64 ? 4 : 2;
template <class V>
constexpr int kTogether<Exponential<V>> = sizeof(V) == 64 && sizeof(typename V::Scalar) == 8 ? 4 : 2;

}  // namespace
}  // namespace collapsar
