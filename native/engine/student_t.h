// The 97.5% quantile of Student's t, by IEEE operations alone: what a 95% interval multiplies its standard error by.
#pragma once

namespace collapsar {

// `degrees` > 0, not necessarily whole (Satterthwaite's are not); below 1 it is taken as 1, NaN gives NaN. Up to 30
// exact at whole numbers and interpolated in 1/degrees between them (never too small: the quantile is convex in it);
// above 30 the Cornish-Fisher series (Abramowitz & Stegun 26.7.5), within 3e-8.
double studentT975(double degrees);

constexpr double kNormal975 = 1.959963984540054;

}  // namespace collapsar
