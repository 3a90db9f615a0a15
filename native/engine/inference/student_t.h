// Quantiles of Student's t, by IEEE operations alone: what an interval multiplies its standard error by.
#pragma once

namespace collapsar {

// The t with P(|T| <= t) = .95. `degrees` not necessarily whole (Satterthwaite's are not), infinity for the normal
// distribution; below 1/2 taken as 1/2, NaN gives NaN. Relative error below 4e-15.
double studentT975(double degrees);

// The t with P(|T| <= t) = confidence, in (0, 1). Relative error below 1e-13; a few microseconds.
double studentT(double degrees, double confidence);

}  // namespace collapsar
