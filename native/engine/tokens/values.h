// Tokens one by one, whatever their type, and which of them, or of their sums, cannot be right: for all that sums them.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/special_values.h"
#include "engine/with_type.h"

namespace collapsar {

inline double tokenAt(DType dtype, const void* tokens, std::int64_t at) {
  const auto read = [&](auto element) {
    std::memcpy(&element, static_cast<const char*>(tokens) + at * static_cast<std::int64_t>(sizeof element),
                sizeof element);
    return valueOf(element);
  };
  return withType(dtype, read);
}

// NaN or +inf: a token that is invalid, or a sum that can only come from one, or (rarely) from an overflow.
inline bool suspicious(double value) { return !(value < kInfinity); }

// One NaN for all, whatever the processor makes of inf - inf.
inline double canonical(double sum) { return sum == sum ? sum : kNaN; }

}  // namespace collapsar
