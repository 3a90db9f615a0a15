// Numbers for the tests: the same on every machine (the standard distributions are not), and encoders of the half
// types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/dtype.h"
#include "engine/half.h"

namespace collapsar::test {

// SplitMix64 (Steele, Lea, Flood 2014).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double between(double low, double high) { return low + (high - low) * uniform(); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(uniform() * static_cast<double>(n)); }
  double bell() {  // nearly normal: twelve uniforms
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

inline std::uint16_t toBFloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Rounded to nearest even; too large: inf.
inline std::uint16_t toFloat16(float x) {
  const std::uint16_t sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000u);
  const double magnitude = std::abs(static_cast<double>(x));
  if (x != x) return sign | 0x7e00u;
  if (magnitude >= 65520.0) return sign | 0x7c00u;
  int exponent = magnitude > 0 ? std::ilogb(magnitude) : -14;
  if (exponent < -14) exponent = -14;
  const double units = std::nearbyint(std::ldexp(magnitude, 10 - exponent));  // 2^10 is the implicit bit
  return static_cast<std::uint16_t>(sign + (exponent + 14) * 1024 + static_cast<int>(units));
}

// Elements of any type in memory that starts at an odd element, so that no load is aligned by luck.
class Elements {
 public:
  Elements(DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_((static_cast<std::size_t>(count) + 1) * sizeOf(dtype)) {}

  DType dtype() const { return dtype_; }
  const void* data() const { return bytes_.data() + sizeOf(dtype_); }
  void* data() { return bytes_.data() + sizeOf(dtype_); }

  void set(std::int64_t i, double x) {
    switch (dtype_) {
      case DType::Float64:
        return put(i, x);
      case DType::Float32:
        return put(i, static_cast<float>(x));
      case DType::Float16:
        return put(i, toFloat16(static_cast<float>(x)));
      case DType::BFloat16:
        return put(i, toBFloat16(static_cast<float>(x)));
    }
  }
  void setBits(std::int64_t i, std::uint64_t bits) { std::memcpy(at(i), &bits, sizeOf(dtype_)); }  // little-endian
  double get(std::int64_t i) const {
    switch (dtype_) {
      case DType::Float64:
        return take<double>(i);
      case DType::Float32:
        return take<float>(i);
      case DType::Float16:
        return float16ToFloat(take<std::uint16_t>(i));
      case DType::BFloat16:
        break;
    }
    return bfloat16ToFloat(take<std::uint16_t>(i));
  }

 private:
  unsigned char* at(std::int64_t i) { return bytes_.data() + static_cast<std::size_t>(i + 1) * sizeOf(dtype_); }
  template <class T>
  void put(std::int64_t i, T value) {
    std::memcpy(at(i), &value, sizeof value);
  }
  template <class T>
  T take(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + static_cast<std::size_t>(i + 1) * sizeOf(dtype_), sizeof value);
    return value;
  }

  DType dtype_;
  std::vector<unsigned char> bytes_;
};

constexpr DType kAllTypes[] = {DType::Float64, DType::Float32, DType::Float16, DType::BFloat16};

}  // namespace collapsar::test
