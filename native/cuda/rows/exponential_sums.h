// Σ 2^y and Σ 2^y y over a thread's columns, y = (x - reference) log2(e)/T: log-sum-exp = reference/T + ln s, entropy =
// ln s - ln2 t/s. Compiled for the host, too, where the tests hold it against long double.
//
// 16-bit and float32: y in float, with log2(e)/T in two floats, of x itself and not of a rounded difference; one
// exponential an element by the special-function unit (relative error 2^-22.5). The reference is an integer in y's
// units: raising it scales exactly. Terms are added by pairs and leave float after one chunk. float64: all in double,
// with what rounding takes from the sums (Knuth's two-sum).
#pragma once

#include "engine/deterministic_math.h"
#include "host_device.h"

namespace collapsar::cuda {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// 2^y in one instruction of the special-function unit; 0 where the result were subnormal. On the host with the largest
// error that the unit may have (PTX ISA, ex2.approx), of a sign that alternates with y.
COLLAPSAR_BOTH float approximateExp2(float y) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
  return power;
#else
  if (y < -126.0f) return 0.0f;
  const bool down = (bitsOfFloat(y) * 0x9e3779b9u) >> 31 != 0;
  return static_cast<float>(exp2(static_cast<double>(y)) * (down ? 1 - 0x1.6ap-23 : 1 + 0x1.6ap-23));
#endif
}

// 2^y for y <= 1000, below one ulp of error, exact for integers; 0 below -1000. Coefficients as the CPU's exponential.
COLLAPSAR_BOTH double exp2Of(double y) {
  if (!(y > -1000.0)) return 0.0;
  constexpr double c0 = kExpCoefficients[0], c1 = kExpCoefficients[1], c2 = kExpCoefficients[2],
                   c3 = kExpCoefficients[3], c4 = kExpCoefficients[4], c5 = kExpCoefficients[5],
                   c6 = kExpCoefficients[6], c7 = kExpCoefficients[7], c8 = kExpCoefficients[8],
                   c9 = kExpCoefficients[9];
  const double shifted = y + kRoundingShift;
  const double r = (y - (shifted - kRoundingShift)) * kLn2;
  double q = fma(c9, r, c8);
  q = fma(q, r, c7);
  q = fma(q, r, c6);
  q = fma(q, r, c5);
  q = fma(q, r, c4);
  q = fma(q, r, c3);
  q = fma(q, r, c2);
  q = fma(q, r, c1);
  q = fma(q, r, c0);
  const double p = fma(r, fma(r, q, 1.0), 1.0);
  return doubleOfBits(bitsOfDouble(p) + (bitsOfDouble(shifted) << 52));
}

// sum + low += x, where low takes what rounding loses.
COLLAPSAR_BOTH void addKeepingLow(double& sum, double& low, double x) {
  const double total = sum + x, part = total - sum;
  low += (sum - (total - part)) + (x - part);
  sum = total;
}

// log2(e)/T, in the precision that y takes.
template <class C>
struct Scale;
template <>
struct Scale<float> {
  float high, low;
  COLLAPSAR_BOTH double exact() const { return static_cast<double>(high) + static_cast<double>(low); }
};
template <>
struct Scale<double> {
  double value;
  COLLAPSAR_BOTH double exact() const { return value; }
};

template <class C>
COLLAPSAR_BOTH Scale<C> scaleOf(double temperature);
template <>
COLLAPSAR_BOTH Scale<float> scaleOf<float>(double temperature) {
  const double exact = kLog2e / temperature;
  const float high = static_cast<float>(exact);
  return {high, static_cast<float>(exact - static_cast<double>(high))};
}
template <>
COLLAPSAR_BOTH Scale<double> scaleOf<double>(double temperature) {
  return {kLog2e / temperature};
}

// The reference is base + power T ln2. Empty (nothing but -inf has come): power is -inf for float, base for double.
template <class C>
struct Sums;
template <>
struct Sums<float> {
  float base, power;
  double s, t;
};
template <>
struct Sums<double> {
  double base;
  double s, t, sLow, tLow;
};

template <class C>
COLLAPSAR_BOTH Sums<C> noSums();
template <>
COLLAPSAR_BOTH Sums<float> noSums<float>() {
  return {0.0f, -kHugeFloat, 0.0, 0.0};
}
template <>
COLLAPSAR_BOTH Sums<double> noSums<double>() {
  return {-kHugeDouble, 0.0, 0.0, 0.0, 0.0};
}

// The same in one form for both, as kernels hand it on: reference base + power T ln2, in double.
struct WideSums {
  double base, power, s, t;
};

COLLAPSAR_BOTH WideSums noWideSums() { return {0.0, -kHugeDouble, 0.0, 0.0}; }
COLLAPSAR_BOTH bool isEmpty(const WideSums& sums) { return sums.power == -kHugeDouble; }

COLLAPSAR_BOTH WideSums widened(const Sums<float>& sums) {
  return {static_cast<double>(sums.base), static_cast<double>(sums.power), sums.s, sums.t};
}
COLLAPSAR_BOTH WideSums widened(const Sums<double>& sums) {
  const bool empty = sums.base == -kHugeDouble;
  return {empty ? 0.0 : sums.base, empty ? -kHugeDouble : 0.0, sums.s + sums.sLow, sums.t + sums.tLow};
}

// The sums are relative to a reference 2^fall times as high as they stand: 0 >= fall. t moves with its own centre.
COLLAPSAR_BOTH void scaleSums(double& s, double& t, double fall) {
  const double scale = exp2Of(fall);
  t = scale == 0.0 ? 0.0 : scale * fma(s, fall, t);
  s *= scale;
}

// From reference to reference in y's units. Equal bases, as almost always, leave an exact difference of integers.
COLLAPSAR_BOTH double riseBetween(double base, double power, double higherBase, double higherPower, double scale) {
  return (base - higherBase) * scale + (power - higherPower);
}

COLLAPSAR_BOTH WideSums merged(WideSums a, WideSums b, double scale) {
  if (isEmpty(b)) return a;
  if (isEmpty(a)) return b;
  const double fall = riseBetween(a.base, a.power, b.base, b.power, scale);
  if (fall > 0.0) {
    scaleSums(b.s, b.t, -fall);
    return {a.base, a.power, a.s + b.s, a.t + b.t};
  }
  scaleSums(a.s, a.t, fall);
  return {b.base, b.power, a.s + b.s, a.t + b.t};
}

// --- raising the reference -----------------------------------------------------------------------------------------

// So many powers of 2 above the reference a maximum raises it: the nearer, the less ln s - ln2 t/s cancels.
constexpr float kRise = 4.0f;
// Beyond so many powers of 2 x is taken relative to a base: y would else have too few digits, or overflow.
constexpr float kLargestPower = 0x1p+20f;
// Terms so far below the reference, and -inf, are taken for this: 2^y is then 0.
constexpr float kLowestPower = -150.0f;

COLLAPSAR_BOTH bool isBased(const Sums<float>& sums) { return sums.base != 0.0f; }
COLLAPSAR_BOTH bool isBased(const Sums<double>&) { return false; }

// Whether the columns of a chunk with this maximum need no base, which almost none do: y of all of them is then a
// number, if -inf is kept out of them. Never where the maximum is +inf or NaN.
COLLAPSAR_BOTH bool isNear(const Sums<float>& sums, float largest, const Scale<float>& scale) {
  const bool unbased = sums.base == 0.0f, close = fabsf(largest * scale.high) < kLargestPower;
  return unbased & close;  // not &&, of which the compiler makes 5 instructions more
}
COLLAPSAR_BOTH bool isNear(const Sums<double>&, double largest, const Scale<double>&) { return largest < kHugeDouble; }

// scaleSums by whole powers of 2, through the exponent: 12 instructions, not 53. Below -1000 nothing is left.
COLLAPSAR_BOTH void scaleSumsByPower(double& s, double& t, float fall) {
  const float kept = fmaxf(fall, -1000.0f);
  const double factor = doubleOfBits(static_cast<uint64_t>(1023 + static_cast<int>(kept)) << 52);
  t = factor * fma(s, static_cast<double>(kept), t);
  s *= factor;
}

COLLAPSAR_BOTH void rescaleNear(Sums<float>& sums, float largest, const Scale<float>& scale) {
  const float power = largest * scale.high;
  if (!(power > sums.power + kRise)) return;
  const float raised = rintf(power);
  scaleSumsByPower(sums.s, sums.t, sums.power - raised);
  sums.power = raised;
}

COLLAPSAR_BOTH void rescaleFar(Sums<float>& sums, float largest, const Scale<float>& scale) {
  const bool empty = sums.power == -kHugeFloat;
  const double fall = empty ? -kHugeDouble
                            : riseBetween(static_cast<double>(sums.base), static_cast<double>(sums.power),
                                          static_cast<double>(largest), 0.0, scale.exact());
  if (!(fall < -static_cast<double>(kRise))) return;
  scaleSums(sums.s, sums.t, fall);
  sums.base = largest;
  sums.power = 0.0f;
}

// Before the columns of a chunk come whose maximum is `largest`, below +inf.
COLLAPSAR_BOTH void rescale(Sums<float>& sums, float largest, const Scale<float>& scale) {
  if (isNear(sums, largest, scale)) return rescaleNear(sums, largest, scale);
  const float power = largest * scale.high;
  if (largest > -kHugeFloat && (sums.base != 0.0f || !(power <= sums.power + kRise) || power == -kHugeFloat)) {
    rescaleFar(sums, largest, scale);
  }
}

COLLAPSAR_BOTH void rescale(Sums<double>& sums, double largest, const Scale<double>& scale) {
  if (!(largest > sums.base)) return;
  const double fall = (sums.base - largest) * scale.exact(), factor = exp2Of(fall);
  if (factor == 0.0) {
    sums.s = sums.t = sums.sLow = sums.tLow = 0.0;
  } else {
    sums.t = factor * fma(sums.s, fall, sums.t);
    sums.tLow = factor * fma(sums.sLow, fall, sums.tLow);
    sums.s *= factor;
    sums.sLow *= factor;
  }
  sums.base = largest;
}

COLLAPSAR_BOTH void rescaleNear(Sums<double>& sums, double largest, const Scale<double>& scale) {
  rescale(sums, largest, scale);
}

// --- terms ---------------------------------------------------------------------------------------------------------

// What -inf, and everything below this, may be taken for where there is no base: a y beyond -2^64 at every temperature.
COLLAPSAR_BOTH float lowestFinite(double temperature) { return static_cast<float>(-0x1p+64 * temperature); }

// y of one element; NaN becomes kLowestPower, too, because whoever meets one has seen it in the maximum. kFinite: no
// element is below lowestFinite, so that y needs no bound.
template <bool kBased, bool kFinite = false>
COLLAPSAR_BOTH float powerOf(float x, const Sums<float>& sums, const Scale<float>& scale) {
  const float d = kBased ? x - sums.base : x;
  const float y = fmaf(d, scale.low, fmaf(d, scale.high, -sums.power));
  return kFinite ? y : fmaxf(y, kLowestPower);
}
template <bool kBased, bool kFinite = false>
COLLAPSAR_BOTH double powerOf(double x, const Sums<double>& sums, const Scale<double>& scale) {
  return fmax((x - sums.base) * scale.exact(), -1100.0);
}

COLLAPSAR_BOTH float powerOfTwo(float y) { return approximateExp2(y); }
COLLAPSAR_BOTH double powerOfTwo(double y) { return exp2Of(y); }

// By pairs: like numbers are doubled exactly. kCount is a power of 2.
template <int kCount, class C>
COLLAPSAR_BOTH C sumOf(C (&x)[kCount]) {
  COLLAPSAR_UNROLLED
  for (int step = 1; step < kCount; step *= 2) {
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kCount; i += 2 * step) x[i] += x[i + step];
  }
  return x[0];
}

// The terms of kCount elements, a power of 2. Weighted ones are added as they are multiplied, at most four in a row.
template <bool kBased, bool kWeighted, bool kFinite = false, int kCount, class C>
COLLAPSAR_BOTH void sumTerms(const C (&x)[kCount], const Sums<C>& sums, const Scale<C>& scale, C& s, C& t) {
  C e[kCount / 2], w[(kCount + 2) / 4];
  COLLAPSAR_UNROLLED
  for (int i = 0; i < kCount; i += 2) {
    const C y0 = powerOf<kBased, kFinite>(x[i], sums, scale), y1 = powerOf<kBased, kFinite>(x[i + 1], sums, scale);
    const C e0 = powerOfTwo(y0), e1 = powerOfTwo(y1);
    e[i / 2] = e0 + e1;
    if (kWeighted) w[i / 4] = fma(e1, y1, i % 4 == 0 ? e0 * y0 : fma(e0, y0, w[i / 4]));
  }
  s = sumOf(e);
  t = kWeighted ? sumOf(w) : C{0};
}

template <bool kWeighted>
COLLAPSAR_BOTH void addChunk(Sums<float>& sums, float s, float t) {
  sums.s += static_cast<double>(s);
  if (kWeighted) sums.t += static_cast<double>(t);
}
template <bool kWeighted>
COLLAPSAR_BOTH void addChunk(Sums<double>& sums, double s, double t) {
  addKeepingLow(sums.s, sums.sLow, s);
  if (kWeighted) addKeepingLow(sums.t, sums.tLow, t);
}

// One element, in double whatever its type: for the few that are looked at singly.
COLLAPSAR_BOTH void addElement(Sums<double>& sums, double x, const Scale<double>& scale) {
  if (x == -kHugeDouble) return;
  rescale(sums, x, scale);
  const double y = powerOf<false>(x, sums, scale), e = exp2Of(y);
  addChunk<true>(sums, e, e * y);
}

}  // namespace collapsar::cuda
