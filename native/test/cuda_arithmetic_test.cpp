// What the CUDA kernels compute with, on the host: exponentials, sums and their references, elements in vectors, and
// how rows are cut. The kernels as a whole are run by cuda_check.
#include <algorithm>

#include "check.h"
#include "cuda/rows/element_vectors.h"
#include "cuda/rows/pieces.h"
#include "cuda/rows/rank_counts.h"
#include "cuda/rows/results.h"
#include "random_numbers.h"
#include "test/references/logits.h"

using namespace collapsar;
using namespace collapsar::cuda;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ulp(double x) { return std::nextafter(std::abs(x), kInfinity) - std::abs(x); }

// Rows of one type, taken as a thread takes them: vector by vector, four at a time, filled up with -inf, which
// bfloat16 has no more where y needs no base.
template <class T>
WideSums sumsOf(const std::vector<double>& row, double temperature) {
  using C = typename Element<T>::Compute;
  constexpr int kPerVector = Element<T>::kPerVector;
  constexpr bool kFinite = std::is_same_v<T, BFloat16>;
  const Scale<C> scale = scaleOf<C>(temperature);
  const std::uint32_t lowest = (bitsOfFloat(lowestFinite(temperature)) >> 16) * 0x10001u;
  Sums<C> sums = noSums<C>();
  for (std::size_t at = 0; at < row.size(); at += 4 * kPerVector) {
    Vector v[4];
    for (int j = 0; j < 4; j++) {
      v[j] = nothing<T>();
      for (int e = 0; e < kPerVector; e++) {
        const std::size_t i = at + static_cast<std::size_t>(j * kPerVector + e);
        if (i >= row.size()) continue;
        if constexpr (sizeof(T) == 2) {
          put<T>(v[j], e, T{toBFloat16(static_cast<float>(row[i]))});
        } else {
          put<T>(v[j], e, static_cast<T>(row[i]));
        }
      }
    }
    const C largest = largestOf<T>(v);
    const bool near = isNear(sums, largest, scale);
    rescale(sums, largest, scale);
    C s[4], t[4];
    for (int j = 0; j < 4; j++) {
      if constexpr (kFinite) {
        for (std::uint32_t& word : v[j].words) word = near ? maxPair(word, lowest, T{}) : word;
      }
      C x[kPerVector];
      unpack<T>(v[j], x);
      if (near) {
        sumTerms<false, true, kFinite>(x, sums, scale, s[j], t[j]);
      } else {
        sumTerms<true, true>(x, sums, scale, s[j], t[j]);
      }
    }
    addChunk<true>(sums, (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3]));
  }
  return widened(sums);
}

template <class T>
void checkRow(const std::vector<double>& row, double temperature, const char* what) {
  const bool wide = sizeof(T) == 8;
  const LogitReference expected = referenceLogits(row, 0, temperature);
  const double best = *std::max_element(row.begin(), row.end());
  // In one go, and in three parts merged in either order.
  const std::size_t third = row.size() / 3 + 1;
  std::vector<WideSums> parts;
  for (std::size_t at = 0; at < row.size(); at += third) {
    parts.push_back(sumsOf<T>({row.begin() + static_cast<std::ptrdiff_t>(at),
                               row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), at + third))},
                              temperature));
  }
  WideSums forwards = noWideSums(), backwards = noWideSums();
  for (std::size_t i = 0; i < parts.size(); i++) {
    forwards = merged(forwards, parts[i], kLog2e / temperature);
    backwards = merged(backwards, parts[parts.size() - 1 - i], kLog2e / temperature);
  }
  for (const WideSums& sums : {sumsOf<T>(row, temperature), forwards, backwards}) {
    const LogitResult result = logitResult(sums, best, row[0], true, temperature);
    const auto allowed = [&](long double value) {
      const double size = static_cast<double>(std::abs(value));
      return wide ? 4 * ulp(std::max(1.0, size)) : 3e-7 + size * 0x1p-24;
    };
    CHECK_NEAR(result.logsumexp, static_cast<double>(expected.logsumexp), allowed(expected.logsumexp), what);
    CHECK_NEAR(result.entropy, static_cast<double>(expected.entropy), wide ? allowed(expected.entropy) : 1e-6, what);
    CHECK_NEAR(result.targetLogprob, static_cast<double>(expected.targetLogprob), allowed(expected.targetLogprob),
               what);
  }
}

template <class T>
void checkRows() {
  Numbers numbers(61);
  const auto rounded = [](double x) {
    if (sizeof(T) == 8) return x;
    const float single = static_cast<float>(x);
    return static_cast<double>(sizeof(T) == 4 ? single : floatOf(BFloat16{toBFloat16(single)}));
  };
  for (const double temperature : {1.0, 0.7, 1e-6, 1e6, 1e-18, 1e18}) {
    for (const double offset : {0.0, 1000.0, -1000.0, 3e6, -1e30}) {
      for (const double spread : {1e-3, 1.0, 8.0, 100.0}) {
        for (const std::size_t size : {1u, 2u, 31u, 700u, 9000u}) {
          if (size > 1000 && spread != 8.0) continue;
          std::vector<double> row;
          for (std::size_t i = 0; i < size; i++) {
            row.push_back(rounded((offset + spread * numbers.bell()) * (offset < -1e20 ? 1 : temperature)));
          }
          checkRow<T>(row, temperature, "random");
        }
      }
    }
  }
  std::vector<double> rising, falling, confident, hidden, huge;
  for (int i = 0; i < 4000; i++) {
    rising.push_back(rounded(0.25 * i));
    falling.push_back(rounded(-0.25 * i));
    confident.push_back(i == 3000 ? 50.0 : rounded(-20 + numbers.bell()));
    hidden.push_back(i % 2 == 0 || i < 2000 ? -kInfinity : rounded(numbers.bell()));
    huge.push_back(rounded(i < 2000 ? -1e38 : i < 3000 ? numbers.bell() : i == 3500 ? 1e38 : -3.0));
  }
  for (const double temperature : {1.0, 0.3}) {
    checkRow<T>(rising, temperature, "rising");
    checkRow<T>(falling, temperature, "falling");
    checkRow<T>(confident, temperature, "confident");
    checkRow<T>(hidden, temperature, "hidden");
    checkRow<T>(huge, temperature, "huge");
    checkRow<T>(std::vector<double>(5000, 0.25), temperature, "equal");
  }
}

}  // namespace

TEST_CASE("2^y in double: below one ulp, exact for integers") {
  Numbers numbers(62);
  for (int i = 0; i < 200000; i++) {
    const double y = numbers.between(i % 2 == 0 ? -2 : -990, 9);
    const double expected = static_cast<double>(std::exp2(static_cast<long double>(y)));
    CHECK_NEAR(exp2Of(y), expected, ulp(expected), y);
  }
  for (int n = -999; n < 1000; n++) CHECK_EQUAL(exp2Of(n), std::ldexp(1.0, n));
  CHECK_EQUAL(exp2Of(-1000.0), 0.0);
  CHECK_EQUAL(exp2Of(-kInfinity), 0.0);
}

TEST_CASE("sums fall by a whole power of 2 as by any, without an exponential") {
  for (int n = 0; n <= 1100; n++) {
    double s = 3.25, t = -7.0, expectedS = s, expectedT = t;
    scaleSumsByPower(s, t, static_cast<float>(-n));
    scaleSums(expectedS, expectedT, static_cast<double>(-n));
    if (n < 1000) {
      CHECK_EQUAL(s, expectedS, n);
      CHECK_EQUAL(t, expectedT, n);
    } else {
      CHECK(s < 0x1p-990 && std::abs(t) < 0x1p-980);
    }
  }
  double s = 0.0, t = 0.0;  // of nothing but -inf
  scaleSumsByPower(s, t, -kHugeFloat);
  CHECK(s == 0.0 && t == 0.0);
}

TEST_CASE("what stands for -inf has no term at any temperature, and leaves all that have one as they are") {
  for (double temperature = 1e-18; temperature < 1.1e18; temperature *= 10) {
    const BFloat16 lowest{static_cast<std::uint16_t>(bitsOfFloat(lowestFinite(temperature)) >> 16)};
    const Scale<float> scale = scaleOf<float>(temperature);
    for (const float power : {-kLargestPower, 0.0f, kLargestPower}) {
      const float y = powerOf<false, true>(floatOf(lowest), Sums<float>{0.0f, power, 1.0, 0.0}, scale);
      CHECK(y < -0x1p+63f && y > -kHugeFloat);
      CHECK_EQUAL(powerOfTwo(y) * y, 0.0f);
    }
  }
}

TEST_CASE("the sums of rows, in one go and merged") {
  checkRows<float>();
  checkRows<BFloat16>();
  checkRows<double>();
}

TEST_CASE("rows of nothing but -inf have no sums") {
  const std::vector<double> row(100, -kInfinity);
  for (const WideSums& sums : {sumsOf<float>(row, 1.0), sumsOf<double>(row, 1.0), sumsOf<BFloat16>(row, 1.0)}) {
    CHECK(isEmpty(sums));
    const LogitResult result = logitResult(sums, -kInfinity, -kInfinity, true, 1.0);
    CHECK_EQUAL(result.logsumexp, -kInfinity);
    CHECK(std::isnan(result.entropy) && std::isnan(result.targetLogprob));
  }
}

TEST_CASE("every 16-bit pattern is widened as the engine does it") {
  for (std::uint32_t bits = 0; bits < 0x10000; bits++) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    CHECK_EQUAL(floatOf(Float16{pattern}), float16ToFloat(pattern), bits);
    CHECK_EQUAL(floatOf(BFloat16{pattern}), bfloat16ToFloat(pattern), bits);
    const Vector v{{bits << 16 | bits, bits, bits << 16, 0}};
    float half[8], brain[8];
    unpack<Float16>(v, half);
    unpack<BFloat16>(v, brain);
    for (const int i : {0, 1, 2, 5}) {
      CHECK_EQUAL(half[i], float16ToFloat(pattern), bits);
      CHECK_EQUAL(brain[i], bfloat16ToFloat(pattern), bits);
    }
  }
}

TEST_CASE("the largest of a vector, NaN above all; hidden and placed elements") {
  Numbers numbers(63);
  const auto check = [&](auto element, auto encode) {
    using T = decltype(element);
    for (int round = 0; round < 3000; round++) {
      Vector v[2] = {nothing<T>(), nothing<T>()};
      double largest = -kInfinity;
      bool nan = false;
      std::uint32_t hidden[2] = {0, 0};
      for (int i = 0; i < 2 * Element<T>::kPerVector; i++) {
        const int one = i / Element<T>::kPerVector, e = i % Element<T>::kPerVector;
        const double x =
            round % 7 == 0 && numbers.below(9) == 0 ? NAN : std::floor(30 * numbers.bell());  // exact in 8 bits
        put<T>(v[one], e, encode(x));
        if (numbers.below(3) == 0) {
          hidden[one] |= 1u << e;
          continue;
        }
        nan |= std::isnan(x);
        if (x > largest) largest = x;
      }
      for (int one = 0; one < 2; one++) v[one] = hiding<T>(v[one], hidden[one]);
      const double found = static_cast<double>(largestOf<T>(v));
      CHECK_EQUAL(found, nan ? static_cast<double>(NAN) : largest);
    }
  };
  check(BFloat16{}, [](double x) { return BFloat16{toBFloat16(static_cast<float>(x))}; });
  check(float{}, [](double x) { return static_cast<float>(x); });
  check(double{}, [](double x) { return x; });
  check(Float16{}, [](double x) { return Float16{toFloat16(static_cast<float>(x))}; });
}

TEST_CASE(
    "ranks are counted as one compares element by element: NaN, infinities, both zeros, subnormal numbers, ties") {
  Numbers numbers(65);
  const auto check = [&](auto encode) {
    using T = decltype(encode(0.0));
    const double odd[] = {NAN, kInfinity, -kInfinity, 0.0, -0.0, 0x1p-24, -0x1p-24, 0x1p-133, 3.0};
    for (int round = 0; round < 3000; round++) {
      const auto any = [&] {
        const std::int64_t one = numbers.below(20);
        return one < 9 ? odd[one] : std::floor(4 * numbers.bell());
      };
      const T target = encode(any());
      Vector v[4] = {nothing<T>(), nothing<T>(), nothing<T>(), nothing<T>()};
      int above = 0, equal = 0;
      for (int i = 0; i < 4 * Element<T>::kPerVector; i++) {
        const T x = encode(any());
        put<T>(v[i / Element<T>::kPerVector], i % Element<T>::kPerVector, x);
        above += floatOf(x) > floatOf(target);
        equal += floatOf(x) == floatOf(target);
      }
      int foundAbove = 100, foundEqual = 1000;
      countRanks(v, target, foundAbove, foundEqual);
      CHECK_EQUAL(foundAbove, 100 + above, round);
      CHECK_EQUAL(foundEqual, 1000 + equal, round);
    }
  };
  check([](double x) { return BFloat16{toBFloat16(static_cast<float>(x))}; });
  check([](double x) { return Float16{toFloat16(static_cast<float>(x))}; });
  check([](double x) { return static_cast<float>(x); });
  check([](double x) { return x; });
}

TEST_CASE("rows are cut so that every column is in one piece") {
  Numbers numbers(64);
  for (int round = 0; round < 20000; round++) {
    const std::int64_t rows = 1 + numbers.below(round % 3 == 0 ? 40 : 5000);
    const std::int64_t columns = 1 + numbers.below(round % 2 == 0 ? 300000 : 5000);
    const std::int64_t groups = 1 + numbers.below(600), size = 2 << numbers.below(3);
    const RowPieces cut = cutRows(rows, columns, size, groups);
    CHECK(cut.rows == rows && cut.wholeRows >= 0 && cut.wholeRows <= rows && cut.pieces >= 1);
    CHECK_EQUAL(cut.units(), cut.wholeRows + cut.cutUnits());
    if (cut.wholeRows == rows) continue;
    CHECK(cut.pieces >= 2);
    CHECK(static_cast<std::int64_t>(cut.pieces) * cut.pieceColumns >= columns);
    CHECK(static_cast<std::int64_t>(cut.pieces - 1) * cut.pieceColumns < columns);
    CHECK(cut.pieceColumns * size >= kLeastPieceBytes / 2);
    CHECK(cut.cutUnits() <= std::max(groups, kMostPiecesInWaves * (rows - cut.wholeRows)));
  }
  // One wave of few rows' pieces: a second one would run by itself.
  CHECK_EQUAL(cutRows(1, 1 << 20, 2, 528).cutUnits(), 64);
  CHECK_EQUAL(cutRows(32, 1 << 20, 2, 528).cutUnits(), 512);
  CHECK_EQUAL(cutRows(100, 500000, 2, 528).cutUnits(), 500);
  CHECK_EQUAL(cutRows(16, 1 << 20, 4, 264).cutUnits(), 256);
  // What is left of many rows: several waves that are nearly full, not one or two that are half empty.
  CHECK_EQUAL(cutRows(8192, 151936, 2, 528).pieces, 3);  // of 272 rows 816 pieces, in 2 waves
  CHECK_EQUAL(cutRows(8192, 151936, 2, 396).pieces, 4);  // 1088, in 3
  CHECK_EQUAL(cutRows(8192, 100, 2, 396).cutUnits(), 0);
}

int main() { return runCases(); }
