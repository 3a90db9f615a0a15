// Degrees of freedom -> t quantile: at 95% from polynomials in 1/degrees, else by Newton's method.
#include "student_t.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/deterministic_math.h"

namespace collapsar {

namespace {

// The quantile is smooth in x = 1/degrees. Each piece is its Chebyshev interpolation (22 nodes, cut after degree 16;
// quantiles of 34 digits), multiplied out in s in [-1, 1]. Cut off: below 3e-15 of the value; rounding: below 1e-15.
constexpr int kCoefficients = 17;
struct Piece {
  double end, scale, shift;  // x < end; s = scale x - shift
  double coefficients[kCoefficients];
};
constexpr Piece kPieces[] = {
    {0.25,
     8.0,
     1.0,
     {0x1.272b24bc9242ap+1, 0x1.9b063b9ee830dp-2, 0x1.f927d4611e0e1p-5, 0x1.be92f985a6e43p-8, 0x1.17eb099a1ad9p-11,
      0x1.28e30d73697c6p-15, 0x1.088be33c18931p-19, 0x1.d086afe389933p-26, 0x1.4deed188432f8p-25,
      -0x1.f82b5a6223ebap-29, -0x1.a53bc613a032bp-30, 0x1.ee9559d6afa1ep-31, -0x1.ddb3bfadbc267p-33,
      -0x1.5fe9b1f461503p-37, 0x1.155f057a8dbe7p-35, -0x1.3693ac3a3ddd1p-37, -0x1.21170432d06bap-44}},
    {0.5,
     8.0,
     3.0,
     {0x1.b5bb03605eb71p+1, 0x1.801459485b3b8p-1, 0x1.e656838ec2a7dp-4, 0x1.a5f9f6276e993p-7, 0x1.10a8f9ff2a43ap-10,
      0x1.285406785ab7bp-14, 0x1.1db230409d02ep-18, 0x1.cd00004b0a7ccp-23, 0x1.630a92c5abdf1p-28, 0x1.52e7868fa4f01p-31,
      0x1.dda4ccd0bca08p-35, -0x1.cccccf956244fp-37, 0x1.2e43715a96441p-39, -0x1.3231d5f69f7c6p-42,
      0x1.059e927a8bc22p-45, 0x1.5498db478c6dcp-50, -0x1.94b7c2fff9e1cp-50}},
    {1.0,
     4.0,
     3.0,
     {0x1.cc42edc6ed2e4p+2, 0x1.f5699ad81af1ep+1, 0x1.43e594b3f24d5p+0, 0x1.1c95c3d56bd5ep-2, 0x1.7fe6e14aa05a8p-5,
      0x1.aa020080aa20bp-8, 0x1.8a3d7fefd0bfep-11, 0x1.3989ae159eb23p-14, 0x1.cad54282bbd36p-18, 0x1.172cdedd4455cp-21,
      0x1.20618db610f26p-25, 0x1.0afcb1453e7fp-28, -0x1.1f550360fa524p-34, 0x1.7c8edb4f00b5fp-37, 0x1.09cedfa46355bp-37,
      -0x1.07555e5fff5f6p-39, 0x1.e3ae589ba3f2bp-43}},
    {2.0,
     2.0,
     3.0,
     {0x1.5fd51e65adda6p+5, 0x1.c57ed741d9cd8p+5, 0x1.31577800e9fe5p+5, 0x1.1734962e37f1fp+4, 0x1.8460a279ac9efp+2,
      0x1.b452aae19daddp+0, 0x1.9b7969c1f658ep-2, 0x1.4ea6d1e072462p-4, 0x1.de5e389762abfp-7, 0x1.313c30c353e7ep-9,
      0x1.5fafe1c1a279ap-12, 0x1.71260c6d33095p-15, 0x1.6517234c09867p-18, 0x1.3cf41bc8a136ap-21, 0x1.09d7f1e6d33cp-24,
      0x1.ab96c2eb7241ep-28, 0x1.211b8b9cb2056p-31}}};

constexpr double kSmallestDegrees = 0.5;
constexpr double kMostDegrees = 1e17;  // beyond, the distribution is the normal one to the last bit

// ln(1 + x), x >= 0: what rounding took from 1 + x is given back.
double log1p(double x) {
  const double sum = 1 + x;
  return deterministicLog(sum) - ((sum - 1) - x) / sum;
}

// Gamma(a + 1/2) / (Gamma(a) sqrt(a)), which goes to 1; a difference of two ln Gamma would lose all digits for large a.
double gammaRatio(double a) {
  constexpr double kAsymptotic = 30;  // from here on the series below is exact to the last bit
  double factor = 1;
  for (; a < kAsymptotic; a++) factor *= std::sqrt(a * (a + 1)) / (a + 0.5);
  const double x = 1 / a, square = x * x;
  // Tricomi and Erdelyi 1951 (DLMF 5.11.13), as a logarithm.
  return factor *
         deterministicExp(-x * (1.0 / 8 - square * (1.0 / 192 - square * (1.0 / 640 - square * (17.0 / 14336)))));
}

// The continued fraction f of the incomplete beta function, I_x(a, b) = x^a y^b / (B(a, b) f), y = 1 - x: the even part
// of DLMF 8.17.22 (Didonato and Morris 1992, eq. 9). With y given apart nothing cancels where x is near 1.
double betaFraction(double a, double b, double x, double y) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  const auto nonZero = [](double value) { return value == 0 ? kTiny : value; };
  // At m = 0 the first fraction of a denominator is 0 times something that may be infinite.
  double value = nonZero(a * (a * y - b * x + 1) / (a + 1));
  double c = value, d = 0;
  for (double m = 1; m < 1000; m++) {
    const double twice = a + 2 * m;
    const double numerator = (a + m - 1) * (a + b + m - 1) / ((twice - 1) * (twice - 1)) * m * (b - m) * x * x;
    const double denominator =
        m + m * (b - m) * x / (twice - 1) + (a + m) * (a * y - b * x + 1 + m * (2 - x)) / (twice + 1);
    d = 1 / nonZero(denominator + numerator * d);
    c = nonZero(denominator + numerator / c);
    value *= c * d;
    if (std::fabs(c * d - 1) < kEnough) break;
  }
  return value;
}

// P(|T| > t), P(|T| <= t), the smaller by itself, and t times the density of |T|.
struct Areas {
  double outside, inside, slope;
};

Areas areasOf(double t, double degrees, double ratio) {
  const double a = degrees / 2, square = t * t;
  const double x = degrees / (degrees + square), y = square / (degrees + square);
  const double power = ratio * std::sqrt(a / std::numbers::pi * y) * deterministicExp(-a * log1p(square / degrees));
  // The fraction converges fast below the mean of the beta distribution.
  if (x < (a + 1) / (a + 2.5)) {
    const double outside = power / betaFraction(a, 0.5, x, y);
    return {outside, 1 - outside, 2 * power};
  }
  const double inside = power / betaFraction(0.5, a, y, x);
  return {1 - inside, inside, 2 * power};
}

}  // namespace

double studentT975(double degrees) {
  if (degrees != degrees) return degrees;
  const double x = 1.0 / (degrees > kSmallestDegrees ? degrees : kSmallestDegrees);
  const Piece* piece = kPieces;
  while (x >= piece->end && piece->end < 2.0) piece++;
  const double s = piece->scale * x - piece->shift;
  double t = piece->coefficients[kCoefficients - 1];
  for (int i = kCoefficients - 2; i >= 0; i--) t = t * s + piece->coefficients[i];
  return t;
}

double studentT(double degrees, double confidence) {
  // t is multiplied by at most e^this at a time: a step too far would end where the tail is 0.
  constexpr double kLongestStep = 2;
  constexpr double kShortestStep = 1e-9;  // the error left is about its square
  if (degrees != degrees) return degrees;
  const double freedom = std::max(kSmallestDegrees, std::min(degrees, kMostDegrees)), ratio = gammaRatio(freedom / 2);
  // Newton's method on the logarithms of t and of the smaller probability: that curve is concave, so that after one
  // step too far at most it closes in from one side.
  const bool isInside = confidence < 0.5;
  const double target = deterministicLog(isInside ? confidence : 1 - confidence);
  double at = 0;
  for (int i = 0; i < 200; i++) {
    const Areas areas = areasOf(deterministicExp(at), freedom, ratio);
    const double probability = isInside ? areas.inside : areas.outside;
    const double excess = (deterministicLog(probability) - target) * (isInside ? -1 : 1);
    const double step = std::max(-kLongestStep, std::min(excess * probability / areas.slope, kLongestStep));
    at += step;
    if (std::fabs(step) < kShortestStep) break;
  }
  return deterministicExp(at);
}

}  // namespace collapsar
