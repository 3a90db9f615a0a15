// Degrees of freedom -> t quantile, from a table and a series.
#include "student_t.h"

namespace collapsar {

namespace {

constexpr int kTabulated = 30;
constexpr double kTable[kTabulated] = {
    12.70620473617469, 4.302652729749462, 3.182446305283708, 2.776445105197793, 2.570581835636315, 2.446911851144979,
    2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274, 2.200985160091639, 2.178812829667228,
    2.160368656462791, 2.144786687917804, 2.131449545559776, 2.119905299221255, 2.109815577833316, 2.100922040241038,
    2.093024054408309, 2.085963447265864, 2.07961384472768,  2.073873067904025, 2.068657610419049, 2.063898561628025,
    2.059538552753297, 2.055529438642874, 2.051830516480285, 2.048407141795245, 2.045229642132703, 2.042272456301238};

}  // namespace

double studentT975(double degrees) {
  if (!(degrees > 1.0)) return degrees != degrees ? degrees : kTable[0];
  if (degrees > kTabulated) {
    // z + g1/n + g2/n^2 + g3/n^3 + g4/n^4, the g's being polynomials in z worked out beforehand.
    const double x = 1.0 / degrees;
    return kNormal975 +
           x * (2.372271230298562 + x * (2.8224986157396112 + x * (2.555849679507722 + x * 1.5895340533938225)));
  }
  const int below = static_cast<int>(degrees);
  if (below == kTabulated) return kTable[kTabulated - 1];
  const double low = 1.0 / below, high = 1.0 / (below + 1);
  const double share = (low - 1.0 / degrees) / (low - high);
  return kTable[below - 1] + share * (kTable[below] - kTable[below - 1]);
}

}  // namespace collapsar
