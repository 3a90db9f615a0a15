// The kernels, written once over FloatVec and DoubleVec; each kernels_<isa>.cpp includes its vectors and then this
// file.
//
// The same bits everywhere: the work is laid out over a fixed number of virtual lanes, whatever the width of the
// machine's vectors, every lane does the same IEEE operations in the same order, and lanes are folded by halves. No
// operation may be contracted, reassociated or approximated (compile with -ffp-contract=off). See kernel_table.h for
// why nothing of the standard library may be included.
#include <stddef.h>

#include "../deterministic_math.h"
#include "kernel_table.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

namespace collapsar {
namespace {

// --- virtual lanes ---------------------------------------------------------------------------------------------

template <class V, int Lanes>
struct Wide {
  static constexpr int kParts = Lanes / V::kLanes;
  V part[kParts];
};

template <class V, int Lanes>
COLLAPSAR_INLINE Wide<V, Lanes> fill(typename V::Scalar x) {
  Wide<V, Lanes> out;
#pragma GCC unroll 16
  for (int i = 0; i < Wide<V, Lanes>::kParts; i++) out.part[i] = set(x);
  return out;
}

template <int Lanes>
COLLAPSAR_INLINE double foldSum(Wide<DoubleVec, Lanes> a) {
#pragma GCC unroll 4
  for (int half = Wide<DoubleVec, Lanes>::kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; i++) a.part[i] = add(a.part[i], a.part[i + half]);
  }
  return foldSum(a.part[0]);
}

template <class V, int Lanes>
COLLAPSAR_INLINE typename V::Scalar foldLarger(Wide<V, Lanes> a) {
#pragma GCC unroll 4
  for (int half = Wide<V, Lanes>::kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; i++) a.part[i] = larger(a.part[i], a.part[i + half]);
  }
  return foldLarger(a.part[0]);
}

// --- token sums ------------------------------------------------------------------------------------------------

using TokenSum = Wide<DoubleVec, kTokenLanes>;

COLLAPSAR_INLINE void add32(TokenSum& sum, const double* tokens) {
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = add(sum.part[i], load(tokens + i * DoubleVec::kLanes));
}

COLLAPSAR_INLINE void add32(TokenSum& sum, const float* tokens) {
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = add(sum.part[i], loadWide(tokens + i * DoubleVec::kLanes));
}

template <class T>
COLLAPSAR_INLINE void add32(TokenSum& sum, const T* tokens) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < kTokenLanes / FloatVec::kLanes; i++) {
    DoubleVec wide[kRatio];
    widen(load(tokens + i * FloatVec::kLanes), wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) sum.part[i * kRatio + j] = add(sum.part[i * kRatio + j], wide[j]);
  }
}

template <class T>
COLLAPSAR_INLINE void addFirst(TokenSum& sum, const T* tokens, int count) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < kTokenLanes / FloatVec::kLanes; i++) {
    const int rest = count - i * FloatVec::kLanes;
    if (rest <= 0) break;
    const int lanes = rest < FloatVec::kLanes ? rest : FloatVec::kLanes;
    const FloatVec part = loadFirst(tokens + i * FloatVec::kLanes, lanes, 0);
    DoubleVec wide[kRatio];
    widen(part, wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) sum.part[i * kRatio + j] = add(sum.part[i * kRatio + j], wide[j]);
  }
}
COLLAPSAR_INLINE void addFirst(TokenSum& sum, const double* tokens, int count) {
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) {
    const int rest = count - i * DoubleVec::kLanes;
    if (rest <= 0) break;
    const int lanes = rest < DoubleVec::kLanes ? rest : DoubleVec::kLanes;
    sum.part[i] = add(sum.part[i], loadFirst(tokens + i * DoubleVec::kLanes, lanes, 0));
  }
}

constexpr int64_t kTokenPrefetchBytes = 4096;

// Token t goes to lane t mod 32. What is missing of the last 32 is +0, which changes no lane, for no lane is ever -0.
// `beyond`: tokens that follow the leaf in memory and will be wanted.
template <class T>
COLLAPSAR_INLINE void addLeaf(TokenSum& sum, const T* tokens, int64_t count, int64_t beyond) {
  constexpr int64_t kFar = kTokenPrefetchBytes / static_cast<int64_t>(sizeof(T));
  int64_t t = 0;
  for (; t + kTokenLanes <= count && t + kFar < count + beyond; t += kTokenLanes) {
    const char* ahead = reinterpret_cast<const char*>(tokens + t + kFar);
#pragma GCC unroll 4
    for (size_t at = 0; at < kTokenLanes * sizeof(T); at += 64) __builtin_prefetch(ahead + at);
    add32(sum, tokens + t);
  }
  for (; t + kTokenLanes <= count; t += kTokenLanes) add32(sum, tokens + t);
  if (t < count) addFirst(sum, tokens + t, static_cast<int>(count - t));
}

template <class T>
COLLAPSAR_INLINE double sumSegment(const T* tokens, int64_t count) {
  if (count <= kLeafTokens) {
    TokenSum sum = fill<DoubleVec, kTokenLanes>(0.0);
    addLeaf(sum, tokens, count, 0);
    return foldSum<kTokenLanes>(sum);
  }
  double total = 0.0;
  while (count > 0) {
    const int64_t leaf = count < kLeafTokens ? count : kLeafTokens;
    TokenSum sum = fill<DoubleVec, kTokenLanes>(0.0);
    count -= leaf;
    addLeaf(sum, tokens, leaf, count);
    total += foldSum<kTokenLanes>(sum);
    tokens += leaf;
  }
  return total;
}

// Memory keeps up only if enough of it is asked for in advance, and the machine's own prefetching stops at the end of
// each page and segment: here each line of a valid token is asked for 4 KiB of valid tokens ahead.
template <class T>
void sumSegmentsOf(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums) {
  const T* tokens = static_cast<const T*>(data);
  constexpr int64_t kFar = kTokenPrefetchBytes / static_cast<int64_t>(sizeof(T));
  int64_t asked = 0, lead = 0;  // of segments [i, asked) the first tokens, together `lead`, have been asked for
  for (int64_t i = 0; i < count; i++) {
    for (; asked < count && lead < kFar; asked++) {
      const int64_t head = lengths[asked] < kFar ? lengths[asked] : kFar;
      const char* at = reinterpret_cast<const char*>(tokens + starts[asked]);
      for (int64_t b = 0; b < head * static_cast<int64_t>(sizeof(T)); b += 64) __builtin_prefetch(at + b);
      lead += head;
    }
    lead -= lengths[i] < kFar ? lengths[i] : kFar;
    sums[i] = sumSegment(tokens + starts[i], lengths[i]);
  }
}

// --- token sums of what is in a cache -----------------------------------------------------------------------------

// Two segments side by side, where the registers hold the lanes of both: an addition waits for the one before it in
// its lane, and the other segment's fill the wait.
constexpr bool kPairsFit = TokenSum::kParts <= 4;

template <class T>
COLLAPSAR_INLINE void addRest(TokenSum& sum, const T* tokens, int64_t t, int64_t count) {
  for (; t + kTokenLanes <= count; t += kTokenLanes) add32(sum, tokens + t);
  if (t < count) addFirst(sum, tokens + t, static_cast<int>(count - t));
}

template <class T>
COLLAPSAR_INLINE void addPair(TokenSum& a, const T* tokensA, int64_t countA, TokenSum& b, const T* tokensB,
                              int64_t countB) {
  int64_t t = 0;
  if constexpr (kPairsFit) {
    const int64_t common = countA < countB ? countA : countB;
    for (; t + kTokenLanes <= common; t += kTokenLanes) {
      add32(a, tokensA + t);
      add32(b, tokensB + t);
    }
  }
  addRest(a, tokensA, t, countA);
  addRest(b, tokensB, t, countB);
}

// Elements of 16 bits are widened strip by strip into memory that stays in the L1 cache, for a conversion to float64
// straight from memory costs half of one from a register.
constexpr int64_t kStripTokens = 512;

// The order in which a strip stands, and how its lanes are folded. Float16: as the tokens came.
COLLAPSAR_INLINE void widenStrip(const Float16* tokens, int64_t count, float* strip) {
  int64_t t = 0;
  for (; t + FloatVec::kLanes <= count; t += FloatVec::kLanes) store(strip + t, load(tokens + t));
  if (t < count) store(strip + t, loadFirst(tokens + t, static_cast<int>(count - t), 0));
}
COLLAPSAR_INLINE double foldStrips(const TokenSum& sum, const Float16*) { return foldSum<kTokenLanes>(sum); }

// BFloat16: of every 32 tokens first those of even number, then the odd ones, which takes no shuffling. Folded by
// halves, the even lanes are one sum and the odd ones another until the last addition.
COLLAPSAR_INLINE void widenStrip(const BFloat16* tokens, int64_t count, float* strip) {
  constexpr int kPair = 2 * FloatVec::kLanes;  // elements that one loadEvenOdd takes
  const auto widen32 = [](const BFloat16* from, float* to) {
#pragma GCC unroll 4
    for (int i = 0; i < kTokenLanes / kPair; i++) {
      FloatVec even, odd;
      loadEvenOdd(from + i * kPair, even, odd);
      store(to + i * FloatVec::kLanes, even);
      store(to + kTokenLanes / 2 + i * FloatVec::kLanes, odd);
    }
  };
  int64_t t = 0;
  for (; t + kTokenLanes <= count; t += kTokenLanes) widen32(tokens + t, strip + t);
  if (t < count) {
    BFloat16 rest[kTokenLanes] = {};
    for (int64_t i = 0; i < count - t; i++) rest[i] = tokens[t + i];
    widen32(rest, strip + t);
  }
}
COLLAPSAR_INLINE double foldStrips(const TokenSum& sum, const BFloat16*) {
  Wide<DoubleVec, kTokenLanes / 2> even, odd;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts / 2; i++) {
    even.part[i] = sum.part[i];
    odd.part[i] = sum.part[TokenSum::kParts / 2 + i];
  }
  return foldSum<kTokenLanes / 2>(even) + foldSum<kTokenLanes / 2>(odd);
}

// In a strip the last 32 tokens are all there: +0 stands for what is missing of them.
COLLAPSAR_INLINE int64_t stripLength(int64_t count) {
  if (count <= 0) return 0;
  return count < kStripTokens ? (count + kTokenLanes - 1) / kTokenLanes * kTokenLanes : kStripTokens;
}
template <class T>
COLLAPSAR_INLINE void fillStrip(const T* tokens, int64_t count, float* strip) {
  const int64_t present = count < kStripTokens ? count : kStripTokens;
  if (present <= 0) return;
  const int64_t length = stripLength(count);
  for (int64_t t = length - kTokenLanes; t < length; t += FloatVec::kLanes) store(strip + t, set(0.0f));
  widenStrip(tokens, present, strip);
}

template <class T>
COLLAPSAR_INLINE void sumPair(const T* tokensA, int64_t countA, const T* tokensB, int64_t countB, double* sums) {
  TokenSum a = fill<DoubleVec, kTokenLanes>(0.0), b = fill<DoubleVec, kTokenLanes>(0.0);
  if constexpr (sizeof(T) > 2) {
    addPair(a, tokensA, countA, b, tokensB, countB);
    sums[0] = foldSum<kTokenLanes>(a);
    sums[1] = foldSum<kTokenLanes>(b);
  } else {
    alignas(64) float strips[2][kStripTokens];
    const int64_t longest = countA < countB ? countB : countA;
    for (int64_t begin = 0; begin < longest; begin += kStripTokens) {
      fillStrip(tokensA + begin, countA - begin, strips[0]);
      fillStrip(tokensB + begin, countB - begin, strips[1]);
      addPair(a, strips[0], stripLength(countA - begin), b, strips[1], stripLength(countB - begin));
    }
    sums[0] = foldStrips(a, tokensA);
    sums[1] = foldStrips(b, tokensB);
  }
}

template <class T>
void sumNearSegmentsOf(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums) {
  const T* tokens = static_cast<const T*>(data);
  int64_t i = 0;
  for (; i + 2 <= count; i += 2) {
    sumPair(tokens + starts[i], lengths[i], tokens + starts[i + 1], lengths[i + 1], sums + i);
  }
  if (i < count) {
    double pair[2];
    sumPair(tokens + starts[i], lengths[i], tokens + starts[i], 0, pair);
    sums[i] = pair[0];
  }
}

template <class T>
void addTokensOf(const void* source, int64_t count, double* lanes) {
  TokenSum sum;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = load(lanes + i * DoubleVec::kLanes);
  addLeaf(sum, static_cast<const T*>(source), count, 0);
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) store(lanes + i * DoubleVec::kLanes, sum.part[i]);
}

double foldTokens(const double* lanes) {
  TokenSum sum;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = load(lanes + i * DoubleVec::kLanes);
  return foldSum<kTokenLanes>(sum);
}

// --- exponentials ----------------------------------------------------------------------------------------------

// e^(d) and e^(d/length) for d <= 0. Below `floor` the result is that of the floor, about 1e-38 or 1e-307: nothing
// beside the largest term, which is near 1, and so -inf needs no branch. A NaN stays one.
template <class V>
struct Exponential;

// 2^f = 1 + f (c0 + c1 f + ...) on |f| <= 1/2, minimax with the constant held at 1; error 9.6e-8 with coefficients in
// float.
constexpr float kExp2Coefficients[5] = {0x1.62e428p-1f, 0x1.ebf9bcp-3f, 0x1.c6b7acp-5f, 0x1.3cea90p-7f,
                                        0x1.5bba1cp-10f};
constexpr float kLog2eFloat = 0x1.715476p+0f;
constexpr double kLog2eFloatLack = 1.3349758171622138639e-8;  // 1 - kLog2eFloat ln 2
constexpr float kRoundingShiftFloat = 0x1.8p+23f;

template <>
struct Exponential<FloatVec> {
  static constexpr float kFloor = -87.0f;  // 2^-125.5: the power of two stays a normal number
  FloatVec scaleHigh, scaleLow, floorToken;

  COLLAPSAR_INLINE explicit Exponential(double length) {
    const double scale = kLog2e / length;
    const float high = static_cast<float>(scale);
    scaleHigh = set(high);
    scaleLow = set(static_cast<float>(scale - high));
    floorToken = set(static_cast<float>(kFloor * length));
  }

  // Of lanes that differ in length, scalesOf each.
  COLLAPSAR_INLINE Exponential(FloatVec high, FloatVec low, FloatVec floor, FloatVec)
      : scaleHigh(high), scaleLow(low), floorToken(floor) {}
  COLLAPSAR_INLINE static void scalesOf(const double* length, float (*scales)[kBatchRows]) {
    for (int lane = 0; lane < kBatchRows; lane++) {
      const double scale = kLog2e / length[lane];
      const float high = static_cast<float>(scale);
      scales[0][lane] = high;
      scales[1][lane] = static_cast<float>(scale - high);
      scales[2][lane] = static_cast<float>(kFloor * length[lane]);
      scales[3][lane] = 0.0f;
    }
  }

  COLLAPSAR_INLINE static FloatVec powerOf2(FloatVec f, FloatVec shifted) {
    FloatVec q = set(kExp2Coefficients[4]);
#pragma GCC unroll 4
    for (int i = 3; i >= 0; i--) q = fma(q, f, set(kExp2Coefficients[i]));
    return timesPowerOf2(fma(q, f, set(1.0f)), shifted);
  }

  // The lack of log2(e) as a float is made good by blockSums.
  COLLAPSAR_INLINE static FloatVec of(FloatVec d) {
    const FloatVec shift = set(kRoundingShiftFloat), log2e = set(kLog2eFloat);
    const FloatVec shifted = fma(d, log2e, shift);
    return powerOf2(fma(d, log2e, sub(shift, shifted)), shifted);
  }

  // The same in two steps, for several at once: what the polynomial is of, and the polynomial.
  COLLAPSAR_INLINE static void reduce(FloatVec d, FloatVec& f, FloatVec& shifted) {
    const FloatVec shift = set(kRoundingShiftFloat), log2e = set(kLog2eFloat);
    shifted = fma(d, log2e, shift);
    f = fma(d, log2e, sub(shift, shifted));
  }
  COLLAPSAR_INLINE void reduceToken(FloatVec difference, FloatVec& f, FloatVec& shifted) const {
    const FloatVec d = larger(floorToken, difference), shift = set(kRoundingShiftFloat);
    shifted = fma(d, scaleHigh, shift);
    f = fma(d, scaleLow, fma(d, scaleHigh, sub(shift, shifted)));
  }
  template <int N>
  COLLAPSAR_INLINE static void powers(const FloatVec (&f)[N], const FloatVec (&shifted)[N], FloatVec (&out)[N]) {
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = set(kExp2Coefficients[4]);
#pragma GCC unroll 4
    for (int i = 3; i >= 0; i--) {
#pragma GCC unroll 16
      for (int j = 0; j < N; j++) out[j] = fma(out[j], f[j], set(kExp2Coefficients[i]));
    }
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = timesPowerOf2(fma(out[j], f[j], set(1.0f)), shifted[j]);
  }
};

template <>
struct Exponential<DoubleVec> {
  static constexpr double kFloor = -708.0;
  DoubleVec scale, inverseHigh, inverseLow, floorToken;

  COLLAPSAR_INLINE explicit Exponential(double length) {
    const double high = 1.0 / length;
    scale = set(kLog2e / length);
    inverseHigh = set(high);
    inverseLow = set(__builtin_fma(-high, length, 1.0) / length);
    floorToken = set(kFloor * length);
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
    DoubleVec q = set(kExpCoefficients[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) q = fma(q, r, set(kExpCoefficients[i]));
    const DoubleVec one = set(1.0);
    return timesPowerOf2(fma(r, fma(r, q, one), one), shifted);
  }

  COLLAPSAR_INLINE static DoubleVec of(DoubleVec d) {
    DoubleVec r, shifted;
    reduce(d, r, shifted);
    return finish(r, shifted);
  }

  // In two steps, for several at once, as above.
  COLLAPSAR_INLINE static void reduce(DoubleVec d, DoubleVec& r, DoubleVec& shifted) {
    const DoubleVec shift = set(kRoundingShift);
    shifted = fma(d, set(kLog2e), shift);
    const DoubleVec minusN = sub(shift, shifted);
    r = fma(minusN, set(kLn2Low), fma(minusN, set(kLn2High), d));
  }
  COLLAPSAR_INLINE void reduceToken(DoubleVec difference, DoubleVec& r, DoubleVec& shifted) const {
    const DoubleVec d = larger(floorToken, difference), shift = set(kRoundingShift);
    shifted = fma(d, scale, shift);
    const DoubleVec minusN = sub(shift, shifted);
    const DoubleVec high = fma(d, inverseLow, fma(d, inverseHigh, mul(minusN, set(kLn2High))));
    r = fma(minusN, set(kLn2Low), high);
  }
  template <int N>
  COLLAPSAR_INLINE static void powers(const DoubleVec (&r)[N], const DoubleVec (&shifted)[N], DoubleVec (&out)[N]) {
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) out[j] = set(kExpCoefficients[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) {
#pragma GCC unroll 16
      for (int j = 0; j < N; j++) out[j] = fma(out[j], r[j], set(kExpCoefficients[i]));
    }
    const DoubleVec one = set(1.0);
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
      coefficient[i] = set(static_cast<C>(NearCoefficients<C>::k[i] * power));
    }
    farthest = set(static_cast<C>(usable ? -length : __builtin_inf()));
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
    const V one = set(static_cast<C>(1));
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) out[j] = fma(out[j], d[j], one);
  }
};

// --- a block of columns ----------------------------------------------------------------------------------------

template <class C>
struct VecOf;
template <>
struct VecOf<float> {
  using V = FloatVec;
};
template <>
struct VecOf<double> {
  using V = DoubleVec;
};

constexpr double kInfinity = __builtin_inf();
constexpr double kUndefined = __builtin_nan("");

using ScoreSum = Wide<DoubleVec, kScoreLanes>;

COLLAPSAR_INLINE void drain(ScoreSum& sum, const Wide<DoubleVec, kScoreLanes>& run) {
#pragma GCC unroll 16
  for (int i = 0; i < ScoreSum::kParts; i++) sum.part[i] = add(sum.part[i], run.part[i]);
}
COLLAPSAR_INLINE void drain(ScoreSum& sum, const Wide<FloatVec, kScoreLanes>& run) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 8
  for (int i = 0; i < Wide<FloatVec, kScoreLanes>::kParts; i++) {
    DoubleVec wide[kRatio];
    widen(run.part[i], wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) sum.part[i * kRatio + j] = add(sum.part[i * kRatio + j], wide[j]);
  }
}

struct BlockSums {
  double s, t, sToken;
};

// Runs of so many vectors are added in the type that is computed in, then to float64 lanes: in a longer run of like
// terms the same rounding error comes again and again (1e-6 for 128 floats).
template <class C>
constexpr int kRunVectors = sizeof(C) == 4 ? 4 : 8;

// While a block is worked on in the L1 cache, memory would idle: what will be read so far ahead is asked for meanwhile.
// Asking for addresses beyond the matrix does no harm.
constexpr uintptr_t kPrefetchBytes = 16384;

// Columns that are taken together: in the search for the best ones, and in the sums.
constexpr int kGroupColumns = 8 * kScoreLanes;
constexpr int kBlockGroups = kBlockColumns / kGroupColumns;

// The exponentials of N vectors of differences: e^d, d and the token's. One is a chain of 13 dependent operations, and
// a processor looks only so far ahead for others: told side by side they take 1/8 less time in float64 (float32:
// alike).
template <int N, class V>
COLLAPSAR_INLINE void exponentials(const V (&difference)[N], const Exponential<V>& exponential, V (&d)[N],
                                   V (&e)[2 * N]) {
  const V floor = set(Exponential<V>::kFloor);
  V f[2 * N], shifted[2 * N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    d[j] = larger(floor, difference[j]);
    Exponential<V>::reduce(d[j], f[j], shifted[j]);
    exponential.reduceToken(difference[j], f[N + j], shifted[N + j]);
  }
  Exponential<V>::powers(f, shifted, e);
}

// The same for differences in [-length, 0]: a token's exponential is then one polynomial of d, without a reduction
// and a power of two: 6 operations in float32 instead of 12, in float64 12 instead of 20.
template <int N, class V>
COLLAPSAR_INLINE void exponentials(const V (&difference)[N], const NearExponential<V>& near, V (&d)[N], V (&e)[2 * N]) {
  const V floor = set(Exponential<V>::kFloor);
  V f[N], shifted[N], power[N], token[N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    d[j] = larger(floor, difference[j]);
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

// So many vectors are told side by side: with their constants they fit the registers, or nearly so in float64, whose
// chains are longer.
template <class Terms>
constexpr int kTogether = sizeof(Terms::farthest) == 64 ? 4 : 2;
template <class V>
constexpr int kTogether<Exponential<V>> = sizeof(V) == 64 && sizeof(typename V::Scalar) == 8 ? 4 : 2;

template <class V>
struct RunSums {
  Wide<V, kScoreLanes> s = fill<V, kScoreLanes>(0), t = s, sToken = s;
};

// N vectors into the sums of a run, the first to lanes `part` and up.
template <int N, class V, class Terms>
COLLAPSAR_INLINE void addVectors(const typename V::Scalar* x, int part, V origin, const Terms& terms, RunSums<V>& run) {
  V difference[N], d[N], e[2 * N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) difference[j] = sub(load(x + j * V::kLanes), origin);
  exponentials(difference, terms, d, e);
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    const int p = (part + j) % Wide<V, kScoreLanes>::kParts;
    run.s.part[p] = add(run.s.part[p], e[j]);
    run.t.part[p] = fma(e[j], d[j], run.t.part[p]);
    run.sToken.part[p] = add(run.sToken.part[p], e[N + j]);
  }
}

struct ColumnSums {
  ScoreSum s = fill<DoubleVec, kScoreLanes>(0.0), t = s, sToken = s;
};

template <class V>
COLLAPSAR_INLINE void drain(ColumnSums& sums, const RunSums<V>& run) {
  drain(sums.s, run.s);
  drain(sums.t, run.t);
  drain(sums.sToken, run.sToken);
}

// kGroupColumns columns, whose runs are added before they are widened: of like terms that is exact, and widening is
// dear.
template <class V, class Terms>
COLLAPSAR_INLINE void addGroup(const typename V::Scalar* x, V origin, const Terms& terms, uintptr_t ahead,
                               uintptr_t aheadStep, ColumnSums& sums) {
  using C = typename V::Scalar;
  constexpr int kParts = Wide<V, kScoreLanes>::kParts, kRun = kRunVectors<C> * kParts;
  RunSums<V> all;
#pragma GCC unroll 2
  for (int first = 0; first < kGroupColumns / V::kLanes; first += kRun) {
    RunSums<V> run;
#pragma GCC unroll 8
    for (int i = 0; i < kRunVectors<C>; i++, ahead += aheadStep) {
      __builtin_prefetch(reinterpret_cast<const void*>(ahead));
      if (sizeof(C) == 8) __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRun; i += kTogether<Terms>) {
      addVectors<kTogether<Terms>>(x + (first + i) * V::kLanes, i % kParts, origin, terms, run);
    }
    if (first == 0) {
      all = run;
      continue;
    }
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
      all.s.part[p] = add(all.s.part[p], run.s.part[p]);
      all.t.part[p] = add(all.t.part[p], run.t.part[p]);
      all.sToken.part[p] = add(all.sToken.part[p], run.sToken.part[p]);
    }
  }
  drain(sums, all);
}

// A block cut into groups: where each stands, and its least values, over some of its columns each lane.
template <class V>
struct Groups {
  const typename V::Scalar* from[kBlockGroups];
  V least[kBlockGroups];
};

// Sums over `count` columns, a multiple of kScoreLanes, relative to a finite reference >= every x (or nearly). While
// they are made, what `ahead` points to is asked for, aheadStep bytes for 16 columns. First come the groups that are
// near: in two lists, the processor need not guess which of them is. Out of line: one copy for all types.
template <class V>
__attribute__((noinline)) BlockSums blockSums(const Groups<V>& groups, int64_t count, typename V::Scalar reference,
                                              double length, uintptr_t ahead, uintptr_t aheadStep) {
  using C = typename V::Scalar;
  const Exponential<V> exponential(length);
  const NearExponential<V> near(length);
  const V origin = set(reference);
  const int whole = static_cast<int>(count / kGroupColumns);
  const C* list[2][kBlockGroups];
  int size[2] = {0, 0};
  for (int g = 0; g < whole; g++) {
    const int isNear = near.reaches(sub(groups.least[g], origin));
    list[isNear][size[isNear]++] = groups.from[g];
  }
  ColumnSums sums;
  const uintptr_t groupStep = kGroupColumns / kScoreLanes * aheadStep;
  for (int g = 0; g < size[1]; g++, ahead += groupStep) addGroup(list[1][g], origin, near, ahead, aheadStep, sums);
  for (int g = 0; g < size[0]; g++, ahead += groupStep) {
    addGroup(list[0][g], origin, exponential, ahead, aheadStep, sums);
  }
  for (int64_t begin = whole * kGroupColumns; begin < count;) {
    const C* x = groups.from[whole] - whole * kGroupColumns;
    const int64_t end = count - begin < kRunVectors<C> * kScoreLanes ? count : begin + kRunVectors<C> * kScoreLanes;
    RunSums<V> run;
    for (; begin < end; begin += kScoreLanes) {
#pragma GCC unroll 8
      for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
        addVectors<1>(x + begin + p * V::kLanes, p, origin, exponential, run);
      }
    }
    drain(sums, run);
  }
  BlockSums out = {foldSum<kScoreLanes>(sums.s), foldSum<kScoreLanes>(sums.t), foldSum<kScoreLanes>(sums.sToken)};
  // e^d = 2^(d L) 2^(d (log2 e - L)), L = log2(e) as a float: to first order the second factor adds its share of t.
  if (sizeof(C) == 4) out.s = __builtin_fma(kLog2eFloatLack, out.t, out.s);
  return out;
}

COLLAPSAR_INLINE void raiseReference(GroupSums& group, double reference, double length) {
  const double fall = group.reference - reference;
  if (group.reference != -kInfinity) {
    const double scale = deterministicExp(fall), scaleToken = deterministicExp(fall / length);
    group.t = scale * __builtin_fma(group.s, fall > -708.0 ? fall : -708.0, group.t);
    group.s *= scale;
    group.sLow *= scale;
    group.sToken *= scaleToken;
    group.sTokenLow *= scaleToken;
  }
  group.reference = reference;
}

// Differences from the reference must be exact, or like values would all err alike: below 32 a multiple of 2^-17 is
// near enough to the maximum, and every float x <= 0 at most 128 below it differs from it by a float.
COLLAPSAR_INLINE float referenceFor(float largest) {
  return largest < 32.0f && largest > -32.0f ? (largest + 96.0f) - 96.0f : largest;
}
COLLAPSAR_INLINE double referenceFor(double largest) { return largest; }

// Takes a block into a group of columns. `largest` is its maximum, NaN apart.
template <class V>
COLLAPSAR_INLINE void addBlock(GroupSums& group, const Groups<V>& groups, int64_t count, typename V::Scalar largest,
                               double length, uintptr_t ahead, uintptr_t aheadStep) {
  using C = typename V::Scalar;
  if (largest == static_cast<C>(kInfinity)) {
    group.invalid = true;
    return;
  }
  if (largest == -static_cast<C>(kInfinity)) {  // -inf and NaN only
    for (int64_t i = 0; i < count; i++) {
      const C x = groups.from[i / kGroupColumns][i % kGroupColumns];
      group.invalid |= x != x;
    }
    return;
  }
  const C reference = referenceFor(largest);
  if (reference > group.reference) raiseReference(group, reference, length);
  const BlockSums sums = blockSums(groups, count, static_cast<C>(group.reference), length, ahead, aheadStep);
  group.invalid |= sums.t != sums.t;
  addExactly(group.s, group.sLow, sums.s);
  addExactly(group.sToken, group.sTokenLow, sums.sToken);
  group.t += sums.t;
}

// One column alone: exact.
template <class C>
COLLAPSAR_INLINE void addFirst(GroupSums& group, C x) {
  if (x != x || x == static_cast<C>(kInfinity)) {
    group.invalid = true;
  } else if (x != -static_cast<C>(kInfinity)) {
    group.reference = x;
    group.s = group.sToken = 1.0;
  }
}

// Puts (x, column) into its place; columns come rising, so that among equals the earlier stays ahead.
template <class C>
COLLAPSAR_INLINE void insert(TopList<C>& top, C x, int32_t column) {
  int place = top.filled < top.size ? top.filled++ : top.size - 1;
  for (; place > 0 && x > top.value[place - 1]; place--) {
    top.value[place] = top.value[place - 1];
    top.column[place] = top.column[place - 1];
  }
  top.value[place] = x;
  top.column[place] = column;
}

COLLAPSAR_INLINE float nextBelow(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = x > 0 ? bits - 1 : x < 0 ? bits + 1 : static_cast<int32_t>(0x80000001u);
  __builtin_memcpy(&x, &bits, sizeof bits);
  return x;
}
COLLAPSAR_INLINE double nextBelow(double x) {
  const uint64_t bits = bitsOf(x);
  return fromBits(x > 0 ? bits - 1 : x < 0 ? bits + 1 : 0x8000000000000001u);
}

template <class V, class T>
COLLAPSAR_INLINE Wide<V, kScoreLanes> loadLanes(const T* source) {
  Wide<V, kScoreLanes> out;
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) out.part[p] = load(source + p * V::kLanes);
  return out;
}

template <class V>
struct ScanCounters {
  Wide<V, kScoreLanes> largest;
  Counter above, equal;
  Groups<V> groups;
  V groupLargest[kBlockGroups];  // as Groups::least
};

template <class V>
struct Extremes {
  Wide<V, kScoreLanes> largest = fill<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  Wide<V, kScoreLanes> least = fill<V, kScoreLanes>(static_cast<typename V::Scalar>(kInfinity));
};

// What is compared of 16 columns rather than summed.
template <class V>
COLLAPSAR_INLINE void scanLanes(const Wide<V, kScoreLanes>& value, V own, ScanCounters<V>& scan, Extremes<V>& group) {
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
    group.largest.part[p] = larger(value.part[p], group.largest.part[p]);
    group.least.part[p] = smaller(value.part[p], group.least.part[p]);
    count(scan.above, greater(value.part[p], own));
    count(scan.equal, equal(value.part[p], own));
  }
}
template <class V>
COLLAPSAR_INLINE void storeLanes(typename V::Scalar* x, const Wide<V, kScoreLanes>& value) {
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) store(x + p * V::kLanes, value.part[p]);
}

template <class V>
COLLAPSAR_INLINE void endGroup(ScanCounters<V>& scan, int64_t group, const Extremes<V>& extremes) {
  V largest = extremes.largest.part[0], least = extremes.least.part[0];
  scan.largest.part[0] = larger(largest, scan.largest.part[0]);
#pragma GCC unroll 8
  for (int p = 1; p < Wide<V, kScoreLanes>::kParts; p++) {
    scan.largest.part[p] = larger(extremes.largest.part[p], scan.largest.part[p]);
    largest = larger(extremes.largest.part[p], largest);
    least = smaller(extremes.least.part[p], least);
  }
  scan.groupLargest[group] = largest;
  scan.groups.least[group] = least;
}

// The size-th largest of 16 values, none of which is NaN, or -inf. Without a branch, which would be guessed wrong.
template <class V>
COLLAPSAR_INLINE typename V::Scalar sizethLargest(const Wide<V, kScoreLanes>& values, int size) {
  using C = typename V::Scalar;
  constexpr int kParts = Wide<V, kScoreLanes>::kParts;
  const V one = set(static_cast<C>(1));
  C value[kScoreLanes];
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) store(value + p * V::kLanes, values.part[p]);
  // Of how many values each is above, counted in four parts: an addition waits for the one before.
  const Wide<V, kScoreLanes> none = fill<V, kScoreLanes>(0);
  Wide<V, kScoreLanes> lower[4] = {none, none, none, none}, held;
  for (int i = 0; i < kScoreLanes; i += 4) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) {
        lower[j].part[p] = addWhere(greater(values.part[p], set(value[i + j])), lower[j].part[p], one);
      }
    }
  }
  const V most = set(static_cast<C>(kScoreLanes - size));
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) {
    const V all = add(add(lower[0].part[p], lower[1].part[p]), add(lower[2].part[p], lower[3].part[p]));
    held.part[p] = select(greater(all, most), set(-static_cast<C>(kInfinity)), values.part[p]);
  }
  return foldLarger<V, kScoreLanes>(held);
}

// Visits, by rising column, what `bound` is not at least as large as, until `visit` is false. Of 64 columns the first
// two visits are made in any case, and count only if they are meant: guessing how many there are costs more.
template <class V, class Visit>
COLLAPSAR_INLINE void eachCandidate(const ScanCounters<V>& scan, int64_t columns, typename V::Scalar bound,
                                    Visit visit) {
  uint64_t candidates[kBlockColumns / 64];
  const typename V::Scalar* places[kBlockColumns / 64];
  int begins[kBlockColumns / 64];
  int list[kBlockGroups], listed = 0, words = 0;
  for (int g = 0; g * kGroupColumns < columns; g++) {
    list[listed] = g;
    listed += any(below(set(bound), scan.groupLargest[g]));
  }
  for (int i = 0; i < listed; i++) {
    const int g = list[i];
    const auto* x = scan.groups.from[g];
    const int64_t here = columns - g * kGroupColumns;
    for (int half = 0; half < kGroupColumns && half < here; half += 64) {
      uint64_t word = 0;
#pragma GCC unroll 32
      for (int at = 0; at < 64; at += V::kLanes) {
        word |= uint64_t{laneBits(below(set(bound), load(x + half + at)))} << at;
      }
      if (here - half < 64) word &= (uint64_t{1} << (here - half)) - 1;  // behind stand an earlier block's
      candidates[words] = word;
      places[words] = x + half;
      begins[words] = g * kGroupColumns + half;
      words += word != 0;
    }
  }
  for (int w = 0; w < words; w++) {
    const auto* x = places[w];
    const int first = __builtin_ctzll(candidates[w]);
    bool going = visit(x[first], begins[w] + first, true);
    uint64_t rest = candidates[w] & (candidates[w] - 1);
    const int second = __builtin_ctzll(rest | uint64_t{1} << 63);  // there is memory, if no candidate
    going &= visit(x[second], begins[w] + second, rest != 0);
    for (rest &= rest - 1; rest != 0 && going; rest &= rest - 1) {
      const int next = __builtin_ctzll(rest);
      going = visit(x[next], begins[w] + next, true);
    }
    if (!going) return;
  }
}

// The candidates for the list are what the bound is not at least as large as; all, where it is NaN.
//
// `size` of the 16 lanes' maxima are at least as large as the size-th of them, and so only columns that are, too, are
// candidates: of a row's first block a few more than `size`, where taking columns as they come would insert
// size ln(columns/size) times, each a branch mispredicted or two (a third of the time at 1024 columns).
template <class V, class C>
COLLAPSAR_INLINE C boundOf(const TopList<C>& top, const ScanCounters<V>& scan) {
  constexpr C kNone = -static_cast<C>(kInfinity);
  const C bound = sizethLargest(scan.largest, top.size);
  const bool full = top.filled == top.size;
  const C last = full ? top.value[top.size - 1] : kNone;
  return full && last >= bound ? last : bound == kNone ? static_cast<C>(kUndefined) : nextBelow(bound);
}

// Takes the best of a block into the list. Candidates are put in order by counting, for each, how many go before it,
// again without a branch.
template <class V, class C>
COLLAPSAR_INLINE void collectTop(TopList<C>& top, int64_t columns, int32_t firstColumn, const ScanCounters<V>& scan,
                                 C bound) {
  constexpr int kParts = Wide<V, kScoreLanes>::kParts;

  // The list as it stands, and behind it what comes later.
  C value[kScoreLanes + 3];
  int32_t column[kScoreLanes + 3];
  for (C& free : value) free = static_cast<C>(kUndefined);  // NaN goes before nothing
  int count = top.filled;
  for (int i = 0; i < count; i++) {
    value[i] = top.value[i];
    column[i] = top.column[i];
  }
  eachCandidate(
      scan, columns, bound, [&](C x, int at, bool meant) __attribute__((always_inline)) {
        value[count] = x;
        column[count] = firstColumn + at;
        count += meant;
        return count <= kScoreLanes;
      });
  if (count > kScoreLanes) {  // unlucky (one row in twenty), or many alike, or NaN: one by one
    eachCandidate(
        scan, columns, bound, [&](C x, int at, bool meant) __attribute__((always_inline)) {
          if (meant && (top.filled < top.size || x > top.value[top.size - 1])) {
            insert(top, x, firstColumn + at);
          }
          return true;
        });
    return;
  }

  value[count] = static_cast<C>(kUndefined);  // a visit that was not meant
  Wide<V, kScoreLanes> all;
#pragma GCC unroll 8
  for (int p = 0; p < kParts; p++) all.part[p] = load(value + p * V::kLanes);
  C sorted[kScoreLanes] = {};  // with NaN, places stay free: the row is looked at anew
  int32_t sortedColumn[kScoreLanes] = {};
  for (int i = 0; i < count; i++) {
    uint32_t before = 0, alike = 0;
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
      before |= laneBits(greater(all.part[p], set(value[i]))) << p * V::kLanes;
      alike |= laneBits(equal(all.part[p], set(value[i]))) << p * V::kLanes;
    }
    const int place = __builtin_popcount(before | (alike & ((1u << i) - 1)));
    sorted[place] = value[i];
    sortedColumn[place] = column[i];
  }
  top.filled = top.size;
  for (int i = 0; i < top.size; i++) {
    top.value[i] = sorted[i];
    top.column[i] = sortedColumn[i];
  }
}

template <class V>
COLLAPSAR_INLINE typename V::Scalar largestOf(const Groups<V>& groups, int64_t count) {
  Wide<V, kScoreLanes> largest = fill<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  for (int64_t i = 0; i < count; i += kScoreLanes) {
    const auto* x = groups.from[i / kGroupColumns] + i % kGroupColumns;
#pragma GCC unroll 8
    for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
      largest.part[p] = larger(load(x + p * V::kLanes), largest.part[p]);
    }
  }
  return foldLarger<V, kScoreLanes>(largest);
}

// Elements of the type that is computed in stay where they are; others are converted into the scratch.
template <class T, class C>
constexpr bool kConverted = true;
template <class C>
constexpr bool kConverted<C, C> = false;

template <class T, class C>
void addColumnsOf(const void* sourceData, int64_t columns, int64_t firstColumn, const int32_t* same, int64_t sameCount,
                  RowState<C>* rowState, BlockScratch<C>* scratch) {
  using V = typename VecOf<C>::V;
  constexpr C kNone = -static_cast<C>(kInfinity);
  const T* source = static_cast<const T*>(sourceData);
  RowState<C>& row = *rowState;
  C* x = scratch->others;

  const int64_t padded = (columns + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
  const int64_t whole = columns / kGroupColumns;
  const V own = set(row.own);
  ScanCounters<V> scan;
  scan.largest = fill<V, kScoreLanes>(kNone);
  for (int64_t group = 0; group < whole; group++) {
    const T* from = source + group * kGroupColumns;
    Extremes<V> extremes;
#pragma GCC unroll 8
    for (int i = 0; i < kGroupColumns; i += kScoreLanes) {
      const Wide<V, kScoreLanes> value = loadLanes<V>(from + i);
      if constexpr (kConverted<T, C>) storeLanes<V>(x + group * kGroupColumns + i, value);
      scanLanes(value, own, scan, extremes);
    }
    if constexpr (kConverted<T, C>) {
      scan.groups.from[group] = x + group * kGroupColumns;
    } else {
      scan.groups.from[group] = from;
    }
    endGroup(scan, group, extremes);
  }
  if (whole * kGroupColumns < columns) {  // the last 16 are filled up with -inf
    Extremes<V> extremes;
    scan.groups.from[whole] = x + whole * kGroupColumns;
    for (int64_t i = whole * kGroupColumns; i < columns; i += kScoreLanes) {
      Wide<V, kScoreLanes> value;
#pragma GCC unroll 8
      for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
        const int64_t rest = columns - i - p * V::kLanes;
        const int lanes = rest < 0 ? 0 : rest < V::kLanes ? static_cast<int>(rest) : V::kLanes;
        value.part[p] = loadFirst(source + i + p * V::kLanes, lanes, kNone);
      }
      storeLanes<V>(x + i, value);
      scanLanes(value, own, scan, extremes);
    }
    endGroup(scan, whole, extremes);
  }
  row.above += total(scan.above);
  row.equal += total(scan.equal);
  if (row.own == kNone) row.equal -= padded - columns;

  C blockLargest = foldLarger<V, kScoreLanes>(scan.largest);
  // The best columns are collected last: while the bound is worked out, a long chain, the sums can begin.
  const bool collecting = row.top.filled < row.top.size || blockLargest > row.top.value[row.top.size - 1];
  const C bound = collecting ? boundOf(row.top, scan) : kNone;

  const uintptr_t ahead = reinterpret_cast<uintptr_t>(source) + kPrefetchBytes;
  // Own and its equivalents leave the block and make up a block of their own.
  if (sameCount > 0) {
    bool hidLargest = false;
    for (int64_t i = 0; i < sameCount; i++) {
      const int64_t at = same[i] - firstColumn, group = at / kGroupColumns;
      C* copy = x + group * kGroupColumns;
      if (scan.groups.from[group] != copy) {
        for (int j = 0; j < kGroupColumns; j += V::kLanes) store(copy + j, load(scan.groups.from[group] + j));
        scan.groups.from[group] = copy;
      }
      hidLargest |= x[at] == blockLargest;
      scratch->same[i] = x[at];
      x[at] = kNone;
      scan.groups.least[group] = set(kNone);
    }
    if (hidLargest) blockLargest = largestOf(scan.groups, padded);
    if (sameCount == 1 && row.same.reference == -kInfinity) {
      addFirst(row.same, scratch->same[0]);
    } else {
      const int64_t samePadded = (sameCount + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
      for (int64_t i = sameCount; i < samePadded; i++) scratch->same[i] = kNone;
      Groups<V> groups;
      for (int g = 0; g * kGroupColumns < samePadded; g++) {
        groups.from[g] = scratch->same + g * kGroupColumns;
        groups.least[g] = set(kNone);
      }
      addBlock(row.same, groups, samePadded, largestOf(groups, samePadded), row.length, ahead, 0);
    }
  }
  addBlock(row.others, scan.groups, padded, blockLargest, row.length, ahead, kScoreLanes * sizeof(T));
  if (!collecting) return;
  for (int64_t i = 0; i < sameCount; i++) x[same[i] - firstColumn] = scratch->same[i];
  collectTop(row.top, columns, static_cast<int32_t>(firstColumn), scan, bound);
}

double logAlone(double value) { return deterministicLog(value); }

}  // namespace
}  // namespace collapsar

#include "finish_rows.inl.h"
#include "narrow_rows.inl.h"

namespace collapsar {
namespace {

// --- arrays of doubles -------------------------------------------------------------------------------------------

void exponentialsOf(const double* values, int64_t count, double* out) {
  const DoubleVec least = set(-708.0);
  for (int64_t i = 0; i < count; i += DoubleVec::kLanes) {
    const DoubleVec x = load(values + i);
    store(out + i, select(greater(least, x), set(0.0), Exponential<DoubleVec>::of(x)));
  }
}

void logarithmsOf(const double* values, int64_t count, double* out) {
  for (int64_t i = 0; i < count; i += DoubleVec::kLanes) {
    const DoubleVec x = load(values + i);
    store(out + i, select(equal(x, set(0.0)), set(-kInfinity), logOf(x)));
  }
}

constexpr KernelTable kTable = {
    {sumSegmentsOf<double>, sumSegmentsOf<float>, sumSegmentsOf<Float16>, sumSegmentsOf<BFloat16>},
    {sumNearSegmentsOf<double>, sumNearSegmentsOf<float>, sumNearSegmentsOf<Float16>, sumNearSegmentsOf<BFloat16>},
    {addTokensOf<double>, addTokensOf<float>, addTokensOf<Float16>, addTokensOf<BFloat16>},
    foldTokens,
    addColumnsOf<double, double>,
    {nullptr, addColumnsOf<float, float>, addColumnsOf<Float16, float>, addColumnsOf<BFloat16, float>},
    addNarrowRowsOf<double, double>,
    {nullptr, addNarrowRowsOf<float, float>, addNarrowRowsOf<Float16, float>, addNarrowRowsOf<BFloat16, float>},
    finishRowsOf,
    turnTopColumnsOf,
    logAlone,
    exponentialsOf,
    logarithmsOf,
};

}  // namespace
}  // namespace collapsar
