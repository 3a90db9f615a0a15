// Infinity and NaN by short names, for files that may use the standard library (kernels: simd/scalars.inl.h).
#pragma once

#include <limits>

namespace collapsar {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace collapsar
