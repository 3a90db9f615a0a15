// exp and log against long double: below one ulp everywhere, exact where they must be.
#include "engine/deterministic_math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "check.h"
#include "random_numbers.h"

using collapsar::deterministicExp;
using collapsar::deterministicLog;
using collapsar::test::Numbers;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// In units in the last place of the exact value.
double error(double actual, long double exact) {
  const double rounded = std::abs(static_cast<double>(exact));
  const double ulp = std::nextafter(rounded, kInfinity) - rounded;
  return static_cast<double>(std::abs(actual - exact)) / ulp;
}

}  // namespace

TEST_CASE("exp errs by less than an ulp") {
  Numbers numbers(31);
  double worst = 0;
  for (int i = 0; i < 300000; i++) {
    const double x = i % 3 == 0   ? numbers.between(-700, 700)
                     : i % 3 == 1 ? numbers.between(-1, 1)
                                  : numbers.between(-40, 0);
    worst = std::max(worst, error(deterministicExp(x), std::exp(static_cast<long double>(x))));
  }
  for (int n = -1000; n <= 1000; n++) {  // where the reduction is at its edges
    for (const double side : {-1e-12, 0.0, 1e-12}) {
      const double x = (n + 0.5) * 0.69314718055994530942 + side;
      worst = std::max(worst, error(deterministicExp(x), std::exp(static_cast<long double>(x))));
    }
  }
  CHECK(worst < 1.0);
  std::cout << "exp: " << worst << " ulp\n";
  CHECK_EQUAL(deterministicExp(0.0), 1.0);
  CHECK_EQUAL(deterministicExp(-0.0), 1.0);
  CHECK_EQUAL(deterministicExp(-709.0), 0.0);
  CHECK_EQUAL(deterministicExp(-kInfinity), 0.0);
  CHECK(deterministicExp(-708.0) > 0);
}

TEST_CASE("log errs by less than an ulp") {
  Numbers numbers(32);
  double worst = 0;
  for (int i = 0; i < 300000; i++) {
    const double x = i % 3 == 0   ? std::ldexp(numbers.between(1, 2), static_cast<int>(numbers.below(2000)) - 1000)
                     : i % 3 == 1 ? numbers.between(0.5, 2)
                                  : 1 + std::ldexp(numbers.between(-1, 1), -static_cast<int>(numbers.below(50)) - 1);
    worst = std::max(worst, error(deterministicLog(x), std::log(static_cast<long double>(x))));
  }
  CHECK(worst < 1.0);
  std::cout << "log: " << worst << " ulp\n";
  CHECK_EQUAL(deterministicLog(1.0), 0.0);
  CHECK_EQUAL(deterministicLog(0.0), -kInfinity);
  CHECK_EQUAL(deterministicLog(0x1p-1022), static_cast<double>(std::log(0x1p-1022L)));
}

int main() { return collapsar::test::runCases(); }

TEST_CASE("powers of two by eighths are the nearest floats") {
  for (int n = -1008; n < 1016; n++) {
    const auto j = static_cast<unsigned>(n) & 7;
    const float power = std::bit_cast<float>(collapsar::kEighthPowers[j] + (static_cast<std::uint32_t>(n) << 20));
    CHECK_EQUAL(power, static_cast<float>(std::exp2(static_cast<long double>(n) / 8)), "n = ", n);
  }
}
