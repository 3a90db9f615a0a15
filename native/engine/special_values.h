// Infinity and NaN by short names, for files of the engine that may use the standard library (the kernels may not:
// simd/scalars.inl.h).
#pragma once

#include <limits>

namespace collapsar {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace collapsar
