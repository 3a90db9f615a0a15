// ExactSum against sums that are known exactly.
#include "engine/exact_sum.h"

#include <algorithm>

#include "check.h"
#include "random_numbers.h"

using collapsar::ExactSum;
using collapsar::test::Numbers;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = 0x1p-1074;

double sumOf(std::initializer_list<double> values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.round();
}

}  // namespace

TEST_CASE("no value is lost to cancellation") {
  CHECK_EQUAL(sumOf({}), 0.0);
  for (const double nothing : {sumOf({}), sumOf({-0.0}), sumOf({1.5, -1.5})}) CHECK(!std::signbit(nothing));
  CHECK_EQUAL(sumOf({1e300, 1.0, -1e300}), 1.0);
  CHECK_EQUAL(sumOf({kLargest, kSmallest, -kLargest}), kSmallest);
  CHECK_EQUAL(sumOf({-1e-300, 1e-300}), 0.0);
  CHECK_EQUAL(sumOf({0.1, 0.2, -0.3}), 0x1p-55);  // the doubles nearest to them
}

TEST_CASE("one value comes back as it was") {
  Numbers numbers(1);
  for (int i = 0; i < 20000; i++) {
    const auto value = std::bit_cast<double>(numbers.bits());
    CHECK_EQUAL(sumOf({value}), value);
  }
  for (const double value : {kSmallest, -kSmallest, 0x1p-1022, -0x1p-1022 + kSmallest, kLargest, -kLargest, 1.0, 0.0}) {
    CHECK_EQUAL(sumOf({value}), value);
  }
}

TEST_CASE("two values are rounded as the processor rounds their sum") {
  Numbers numbers(2);
  for (int i = 0; i < 50000; i++) {
    const double a = std::ldexp(numbers.between(-1, 1), static_cast<int>(numbers.below(120)) - 60);
    const double b = std::ldexp(numbers.between(-1, 1), static_cast<int>(numbers.below(120)) - 60);
    CHECK_EQUAL(sumOf({a, b}), a + b);
  }
  for (int i = 0; i < 20000; i++) {  // near the subnormal numbers
    const double a = std::ldexp(numbers.between(-1, 1), -1010 - static_cast<int>(numbers.below(64)));
    const double b = std::ldexp(numbers.between(-1, 1), -1010 - static_cast<int>(numbers.below(64)));
    CHECK_EQUAL(sumOf({a, b}), a + b);
  }
}

TEST_CASE("ties go to even, and any bit below breaks them") {
  const double half = 0x1p-53;
  CHECK_EQUAL(sumOf({1.0, half}), 1.0);
  CHECK_EQUAL(sumOf({1.0, half, kSmallest}), 1.0 + 0x1p-52);
  CHECK_EQUAL(sumOf({1.0 + 0x1p-52, half}), 1.0 + 0x1p-51);
  CHECK_EQUAL(sumOf({1.0 + 0x1p-52, half, -kSmallest}), 1.0 + 0x1p-52);
  CHECK_EQUAL(sumOf({-1.0, -half, -kSmallest}), -1.0 - 0x1p-52);
  CHECK_EQUAL(sumOf({2.0 - 0x1p-52, half}), 2.0);  // carries into the next binade
  CHECK_EQUAL(sumOf({2.0 - 0x1p-52, half, -kSmallest}), 2.0 - 0x1p-52);
}

TEST_CASE("overflow is judged by the whole sum") {
  CHECK_EQUAL(sumOf({kLargest, kLargest}), kInfinity);
  CHECK_EQUAL(sumOf({-kLargest, -kLargest}), -kInfinity);
  CHECK_EQUAL(sumOf({kLargest, kLargest, -kLargest}), kLargest);
  CHECK_EQUAL(sumOf({kLargest, 0x1p970}), kInfinity);  // half an ulp above: a tie, to even
  CHECK_EQUAL(sumOf({kLargest, 0x1p970, -kSmallest}), kLargest);
}

TEST_CASE("special values add as IEEE has it") {
  CHECK_EQUAL(sumOf({kInfinity, 1.0}), kInfinity);
  CHECK_EQUAL(sumOf({-kInfinity, 1e308}), -kInfinity);
  CHECK_EQUAL(sumOf({kInfinity, -kInfinity}), kNaN);
  CHECK_EQUAL(sumOf({kNaN, 1.0}), kNaN);
}

TEST_CASE("order changes nothing") {
  Numbers numbers(3);
  std::vector<double> values;
  for (int i = 0; i < 5000; i++) {
    values.push_back(std::ldexp(numbers.between(-1, 1), static_cast<int>(numbers.below(2000)) - 1000));
  }
  ExactSum whole;
  for (const double value : values) whole.add(value);
  for (int trial = 0; trial < 20; trial++) {
    for (std::size_t i = values.size() - 1; i > 0; i--) {
      std::swap(values[i], values[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1))]);
    }
    ExactSum again;
    for (const double value : values) again.add(value);
    CHECK_EQUAL(again.round(), whole.round());
  }
  // Whatever is added is also taken away again.
  for (const double value : values) whole.add(-value);
  CHECK_EQUAL(whole.round(), 0.0);
}

TEST_CASE("products are added without rounding") {
  Numbers numbers(4);
  ExactSum sum;
  __extension__ using Wide = __int128;
  Wide exact = 0;
  for (int i = 0; i < 20000; i++) {
    const auto a = static_cast<std::int64_t>(numbers.bits() >> 13), b = static_cast<std::int64_t>(numbers.bits() >> 13);
    const std::int64_t sign = i % 2 == 0 ? 1 : -1;
    sum.addProduct(static_cast<double>(a * sign), static_cast<double>(b));
    exact += static_cast<Wide>(a) * b * sign;
  }
  // The compiler's conversion from 128 bits rounds to nearest even.
  CHECK_EQUAL(sum.round(), static_cast<double>(exact));
  // Of a product that overflows nothing is left to correct.
  sum.addProduct(1e200, 1e200);
  CHECK_EQUAL(sum.round(), kInfinity);
}

int main() { return collapsar::test::runCases(); }
