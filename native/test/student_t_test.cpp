// Quantiles of Student's t: known ones, and the area that they are defined by.
#include "engine/inference/student_t.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "check.h"

using namespace collapsar;

TEST_CASE("Student's t quantiles") {
  // Solved with mpmath in 40 digits: I_{n/(n+t^2)}(n/2, 1/2) = .05.
  constexpr double kExpected[][2] = {
      {0.5, 164.557673480488533},      {0.7, 36.6114150315886966},   {1, 12.7062047361747046},
      {1.37, 6.88507315664170791},     {2, 4.30265272974946385},     {2.5, 3.57465484200368322},
      {4.5, 2.65891234720440377},      {7, 2.36462425159278534},     {12.25, 2.17389138839206358},
      {30, 2.04227245630123831},       {31, 2.03951344639640849},    {59.9, 2.00036650861085856},
      {61, 1.9996235849949397},        {100.3, 1.98389885428792337}, {1000, 1.96233908082640848},
      {123456.7, 1.95998320013623267}, {1e7, 1.95996422176720549},   {1e9, 1.95996398691232547}};
  for (const auto& [degrees, quantile] : kExpected) CHECK_NEAR(studentT975(degrees) / quantile, 1, 4e-15);
  CHECK_NEAR(studentT975(std::numeric_limits<double>::infinity()), 1.959963984540054, 4e-15);
  CHECK_EQUAL(studentT975(0.2), studentT975(0.5));
  CHECK(std::isnan(studentT975(std::numeric_limits<double>::quiet_NaN())));
  double last = studentT975(0.5);
  for (double degrees = 0.51; degrees < 60; degrees += 0.01) {
    CHECK(studentT975(degrees) < last);
    last = studentT975(degrees);
  }
}

TEST_CASE("Student's t quantiles against their definition") {
  // .95 of the area between -t and t, by Simpson's rule in u = arctan(t / sqrt(n)): the density is cos(u)^(n-1) there.
  for (double degrees = 1; degrees < 40; degrees += 0.37) {
    const double edge = std::atan(studentT975(degrees) / std::sqrt(degrees));
    const auto area = [&](double to) {
      constexpr int kSteps = 20000;
      double sum = 0;
      for (int i = 0; i <= kSteps; i++) {
        const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * std::pow(std::cos(to * i / kSteps), degrees - 1);
      }
      return sum * to / kSteps / 3;
    };
    const double whole =
        std::sqrt(std::numbers::pi) / 2 * std::exp(std::lgamma(degrees / 2) - std::lgamma((degrees + 1) / 2));
    CHECK_NEAR(area(edge) / whole, 0.95, 1e-11);
  }
}

TEST_CASE("Student's t quantiles of any confidence") {
  // Solved as above, for P(|T| <= t) = confidence.
  constexpr double kExpected[][3] = {
      {0.5, 0.95, 164.55767348048823},  {0.5, 0.999, 411396.46252617065},    {1, 0.99, 63.656741162871526},
      {1.37, 0.8, 2.3341491137765664},  {2.5, 0.95, 3.5746548420036817},     {4.5, 0.1, 0.13291007210202013},
      {4.5, 0.95, 2.658912347204403},   {30, 0.99, 2.749995653567225},       {59.9, 0.999999, 5.449966269846993},
      {1000, 0.99, 2.5807546980659506}, {123456.7, 0.5, 0.6744917374156495}, {1e9, 0.95, 1.959963986912325},
      {1e9, 0.99, 2.575829308465448}};
  for (const auto& [degrees, confidence, quantile] : kExpected) {
    CHECK_NEAR(studentT(degrees, confidence) / quantile, 1, 1e-13);
  }
  for (double degrees = 0.5; degrees < 1e6; degrees *= 1.37) {
    CHECK_NEAR(studentT(degrees, 0.95) / studentT975(degrees), 1, 1e-13);
  }
  CHECK_NEAR(studentT(std::numeric_limits<double>::infinity(), 0.95), 1.959963984540054, 1e-13);
  CHECK(std::isnan(studentT(std::numeric_limits<double>::quiet_NaN(), 0.9)));
}

int main() { return collapsar::test::runCases(); }
