// The kernels' exponentials and logarithms of arrays: deterministicExp and deterministicLog, bit for bit; and the
// portable fused multiply-add that they and all else rest on where the processor has none.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.h"
#include "engine/deterministic_math.h"
#include "engine/isa.h"
#include "engine/simd/kernel_table.h"
#include "engine/simd/vec_baseline.h"
#include "random_numbers.h"

using namespace collapsar;
using collapsar::test::Numbers;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expectScalarBits(const std::vector<double>& values, bool exponential) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<double> padded = values;
  padded.resize((values.size() + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles, -1.0);
  std::vector<double> out(padded.size());
  (exponential ? kernels().exponentials : kernels().logarithms)(padded.data(), count, out.data());
  for (std::size_t i = 0; i < values.size(); i++) {
    const double expected = exponential ? deterministicExp(values[i]) : deterministicLog(values[i]);
    CHECK_EQUAL(std::bit_cast<std::uint64_t>(out[i]), std::bit_cast<std::uint64_t>(expected), "of ", values[i]);
  }
}

}  // namespace

TEST_CASE("arrays have the bits of single values, with every instruction set and any number of them") {
  std::uint64_t state = 5;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  std::vector<double> exponents = {0.0, -0.0, -708.0, -708.0000001, -745.0, -1e300, -kInfinity, 1e-300, -1e-300, 709.0};
  std::vector<double> positive = {
      0.0, 1.0, 0.5, 2.0, 0x1p-1022, 1.7976931348623157e308, 1.4142135623730951, 0.7071067811865476};
  for (int i = 0; i < 5000; i++) {
    exponents.push_back(-700 * uniform() * uniform() * uniform());
    positive.push_back(std::bit_cast<double>((state >> 2) % 0x7fe0000000000000u + 0x0010000000000000u));
    positive.push_back(1 + (uniform() - 0.5) * 0x1p-20);
  }
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    expectScalarBits(exponents, true);
    expectScalarBits(positive, false);
    for (std::size_t count = 0; count < 20; count++) {
      expectScalarBits({exponents.begin(), exponents.begin() + static_cast<std::ptrdiff_t>(count)}, true);
    }
  }
}

int main() { return collapsar::test::runCases(); }

TEST_CASE("the portable fma rounds once: the bits of libm's") {
  const auto expectExact = [](const float* a, const float* b, const float* c) {
    const FloatVec found = fma(load(a), load(b), load(c));
    for (int i = 0; i < FloatVec::kLanes; i++) {
      const float expected = std::fma(a[i], b[i], c[i]);
      if (std::isnan(expected) && std::isnan(found.v[i])) continue;
      CHECK_EQUAL(std::bit_cast<std::uint32_t>(found.v[i]), std::bit_cast<std::uint32_t>(expected), "of ", a[i], ", ",
                  b[i], ", ", c[i]);
    }
  };
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.0f,           -0.0f,           1.0f,      -1.0f,    kInf,    -kInf,
                           kNaN,           0x1p-149f,       0x1p-126f, 0x1p-75f, 0x1p64f, 0x1.000002p0f,
                           0x1.fffffep-1f, 0x1.fffffep127f, 1.5f,      -0x1p-24f};
  for (const float a : special) {
    for (const float b : special) {
      for (int i = 0; i < 16; i += FloatVec::kLanes) {
        const float as[] = {a, a, a, a}, bs[] = {b, b, b, b};
        expectExact(as, bs, special + i);
      }
    }
  }
  Numbers numbers(11);
  for (int round = 0; round < 200000; round++) {
    float a[4], b[4], c[4];
    for (int i = 0; i < 4; i++) {
      a[i] = static_cast<float>(std::ldexp(numbers.bell(), static_cast<int>(20 * numbers.bell())));
      b[i] = static_cast<float>(std::ldexp(numbers.bell(), static_cast<int>(20 * numbers.bell())));
      // Every other time all but the last bits cancel.
      c[i] = round % 2 == 0 ? static_cast<float>(std::ldexp(numbers.bell(), static_cast<int>(30 * numbers.bell())))
                            : -a[i] * b[i] * (1 + static_cast<float>(i - 2) * 0x1p-23f);
    }
    expectExact(a, b, c);
  }
}
