// float16 and bfloat16 bit patterns -> float, exactly, without hardware support; elements of every type -> their value.
#pragma once

#include <bit>
#include <cstdint>

namespace collapsar {

inline float bfloat16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float float16ToFloat(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // inf, NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x0400u) {  // zero, subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));  // rebias 15 -> 127
}

// The nearest float16, ties to even; a finite value beyond its range becomes the largest one of its sign.
inline std::uint16_t float16Of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
  const double magnitude = std::bit_cast<double>(bits & 0x7fffffffffffffffu);
  if (magnitude != magnitude) return 0x7e00u;
  if (magnitude > 0x1.fffffffffffffp1023) return sign | 0x7c00u;
  if (magnitude >= 65504.0) return sign | 0x7bffu;
  // Adding 2^52 units in the last place of the result leaves a whole number of them; below 2^-14 one is 2^-24.
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ffu) - 1023;
  const int unit = (exponent < -14 ? -14 : exponent) - 10;
  const double shift = std::bit_cast<double>(static_cast<std::uint64_t>(unit + 52 + 1023) << 52);
  const auto units = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(magnitude + shift) & 0xfffu);
  // 2^11 of them are the next exponent's 2^10: the carry goes into it by itself.
  return static_cast<std::uint16_t>(sign + (static_cast<std::uint32_t>(unit + 24) << 10) + units);
}

// Elements of 16 bits outside the kernels, which have their own types, without the standard library.
struct Float16Bits {
  std::uint16_t bits;
};
struct BFloat16Bits {
  std::uint16_t bits;
};

inline double valueOf(double x) { return x; }
inline double valueOf(float x) { return x; }
inline double valueOf(Float16Bits x) { return float16ToFloat(x.bits); }
inline double valueOf(BFloat16Bits x) { return bfloat16ToFloat(x.bits); }

}  // namespace collapsar
