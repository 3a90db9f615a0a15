// The kernels' exponentials and logarithms of arrays: deterministicExp and deterministicLog, bit for bit.
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.h"
#include "engine/deterministic_math.h"
#include "engine/isa.h"
#include "engine/simd/kernel_table.h"

using namespace collapsar;

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
