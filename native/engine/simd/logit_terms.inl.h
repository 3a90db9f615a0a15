// The terms of logitStats' sums, several vectors side by side: e^((x-reference)/T) and x-reference, in float32 and
// float64, at T = 1 and any other; and where the reference is placed.
#pragma once

#include "engine/deterministic_math.h"
#include "exponentials.inl.h"
#include "logit_kernel_table.h"

namespace collapsar {
namespace {

// e^r = 1 + r + r^2 (c0 + c1 r) on |r| <= ln2/16, minimax, in float; relative error 2.6e-8.
constexpr float kExpCoefficientsFloat[2] = {0x1.000874p-1f, 0x1.55569cp-3f};
constexpr float kLn2Float = 0x1.62e43p-1f;
constexpr float kNatsPerEighth = kLn2Float / 8.0f;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2FloatExcess = 0x1.79a8dc2f503a2p-29;  // kLn2Float / ln2 - 1

// Terms below e^-86 of the reference are taken for that: the power of two stays a normal number.
constexpr double kLogitDepth = 86.0;
// Beyond this many powers of 2 the reference is subtracted before the power is taken.
constexpr double kLargestPower = 0x1p+20;
// From here on a multiple of 2^-46 near the maximum is one in units of T, too.
constexpr double kLeastRoundedT = 0x1p-40;

// The reference of a temperature is `base + power T ln 2`: a multiple of ln 2 costs nothing, for it goes into the
// exponent, and x itself (not a rounded difference) is what the exponential is taken of. `base` is 0 unless x is huge.
template <class C>
COLLAPSAR_INLINE LogitReference placeReference(double largest, double temperature) {
  if (sizeof(C) == 8) {
    // Differences from a multiple of 2^-46 are exact for most of what is near. Divided by a tiny T the rounding of the
    // maximum itself would be an exponent.
    const bool rounds = temperature > kLeastRoundedT && largest < 32.0 && largest > -32.0;
    const double base = rounds ? (largest + 96.0) - 96.0 : largest;
    return {base, 0.0, base, 0.0};
  }
  const double power = largest * kLog2e / temperature;
  if (power < kLargestPower && power > -kLargestPower) {
    const double whole = (power + kRoundingShift) - kRoundingShift;
    const double origin = temperature == 1.0 ? whole * static_cast<double>(kLn2Float) : whole * kLn2 * temperature;
    return {origin, whole, 0.0, origin};
  }
  return {largest, 0.0, largest, 0.0};
}

// Several vectors at once, step by step: one exponential is a chain of dependent operations.
#define COLLAPSAR_EACH _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)

// As many as the registers hold.
template <class V>
constexpr int kSideBySide = sizeof(V) == 64 ? 4 : 2;

// T = 1: n = round(8 x log2 e), r = x - n (ln 2)/8, with ln 2 as a float. What it exceeds ln 2 by is e^(-excess
// (x-reference)) and made good by addLack().
struct UnitTerms {
  using V = FloatVec;
  static constexpr double kExcess = kLn2FloatExcess;
  FloatVec shift, floor, origin;

  COLLAPSAR_INLINE UnitTerms(const LogitReference& reference, double) {
    shift = splat(static_cast<float>(static_cast<double>(kRoundingShiftFloat) - 8.0 * reference.power));
    floor = splat(static_cast<float>(reference.origin - kLogitDepth));
    origin = splat(static_cast<float>(reference.origin));
  }
  template <int N>
  COLLAPSAR_INLINE void of(const FloatVec* value, FloatVec* e, FloatVec* d) const {
    FloatVec x[N], shifted[N], r[N], power[N];
    COLLAPSAR_EACH x[j] = max(floor, value[j]);
    COLLAPSAR_EACH shifted[j] = fma(x[j], splat(kEighthsPerNat), shift);
    COLLAPSAR_EACH r[j] = fma(sub(shift, shifted[j]), splat(kNatsPerEighth), x[j]);
    COLLAPSAR_EACH d[j] = sub(x[j], origin);
    COLLAPSAR_EACH power[j] = powerOfEighths(shifted[j]);
    COLLAPSAR_EACH e[j] = fma(splat(kExpCoefficientsFloat[1]), r[j], splat(kExpCoefficientsFloat[0]));
    COLLAPSAR_EACH e[j] = fma(mul(r[j], r[j]), e[j], r[j]);
    COLLAPSAR_EACH e[j] = fma(power[j], e[j], power[j]);
  }
};

// Any T, and huge x: n = round(x c), f = x c - n, with c = 8 log2(e)/T in two floats.
struct ScaledTerms {
  using V = FloatVec;
  static constexpr double kExcess = 0.0;
  FloatVec base, shift, floor, origin, scaleHigh, scaleLow;

  COLLAPSAR_INLINE ScaledTerms(const LogitReference& reference, double temperature) {
    const double scale = 8.0 * kLog2e / temperature;
    const float high = static_cast<float>(scale);
    base = splat(static_cast<float>(reference.base));
    shift = splat(static_cast<float>(static_cast<double>(kRoundingShiftFloat) - 8.0 * reference.power));
    floor = splat(static_cast<float>(reference.origin - kLogitDepth * temperature));
    origin = splat(static_cast<float>(reference.origin));
    scaleHigh = splat(high);
    scaleLow = splat(static_cast<float>(scale - static_cast<double>(high)));
  }
  template <int N>
  COLLAPSAR_INLINE void of(const FloatVec* value, FloatVec* e, FloatVec* d) const {
    FloatVec x[N], shifted[N], f[N];
    COLLAPSAR_EACH x[j] = max(floor, sub(value[j], base));
    COLLAPSAR_EACH shifted[j] = fma(x[j], scaleHigh, shift);
    COLLAPSAR_EACH f[j] = fma(x[j], scaleLow, fma(x[j], scaleHigh, sub(shift, shifted[j])));
    COLLAPSAR_EACH d[j] = sub(x[j], origin);
    FloatVec out[N];
    Exponential<FloatVec>::powers(f, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

struct UnitTerms64 {
  using V = DoubleVec;
  static constexpr double kExcess = 0.0;
  DoubleVec base, floor;

  COLLAPSAR_INLINE UnitTerms64(const LogitReference& reference, double) {
    base = splat(reference.base);
    floor = splat(Exponential<DoubleVec>::kFloor);
  }
  template <int N>
  COLLAPSAR_INLINE void of(const DoubleVec* value, DoubleVec* e, DoubleVec* d) const {
    DoubleVec r[N], shifted[N];
    COLLAPSAR_EACH {
      d[j] = max(floor, sub(value[j], base));
      Exponential<DoubleVec>::reduce(d[j], r[j], shifted[j]);
    }
    DoubleVec out[N];
    Exponential<DoubleVec>::powers(r, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

struct ScaledTerms64 {
  using V = DoubleVec;
  static constexpr double kExcess = 0.0;
  Exponential<DoubleVec> exponential;
  DoubleVec base;

  COLLAPSAR_INLINE ScaledTerms64(const LogitReference& reference, double temperature) : exponential(temperature) {
    base = splat(reference.base);
  }
  template <int N>
  COLLAPSAR_INLINE void of(const DoubleVec* value, DoubleVec* e, DoubleVec* d) const {
    DoubleVec r[N], shifted[N];
    COLLAPSAR_EACH {
      d[j] = max(exponential.floorToken, sub(value[j], base));
      exponential.reduceToken(d[j], r[j], shifted[j]);
    }
    DoubleVec out[N];
    Exponential<DoubleVec>::powers(r, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

// Sums over the terms of kExcess > 0 -> without the excess: Σ e^((1-excess) d) and its like, to first order. The mean
// of d stays: ln s - t/s is then exactly the entropy at (1-excess).
template <class Terms>
COLLAPSAR_INLINE void addLack(const Terms&, double& s, double& t) {
  if (Terms::kExcess == 0.0) return;
  const double lack = Terms::kExcess * t;
  t = __builtin_fma(t, lack / s, t);
  s += lack;
}

}  // namespace
}  // namespace collapsar
