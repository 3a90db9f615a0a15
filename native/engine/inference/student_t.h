// The 97.5% quantile of Student's t, by IEEE operations alone: what a 95% interval multiplies its standard error by.
#pragma once

namespace collapsar {

// `degrees` not necessarily whole (Satterthwaite's are not), infinity for the normal distribution; below 1/2 taken as
// 1/2, NaN gives NaN. Relative error below 4e-15.
double studentT975(double degrees);

}  // namespace collapsar
