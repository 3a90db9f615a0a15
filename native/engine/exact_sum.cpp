// ExactSum: doubles are split into 32-bit digits of a fixed-point number whose last bit is 2^-1074.
#include "exact_sum.h"

#include <bit>
#include <cmath>

#include "special_values.h"

namespace collapsar {

namespace {

constexpr int kDigitBits = 32;
constexpr std::uint64_t kDigitMask = 0xffffffffu;
constexpr std::int64_t kMaxPending = std::int64_t{1} << 30;  // each add puts less than 2^32 into a chunk

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t significand = bits & 0xfffffffffffffu;
  const bool negative = bits >> 63 != 0;
  if (exponent == 0x7ff) {
    if (significand != 0) {
      nan_++;
    } else if (negative) {
      negativeInfinity_++;
    } else {
      positiveInfinity_++;
    }
    return;
  }
  int position = 0;  // of the significand's last bit, counted from 2^-1074
  if (exponent > 0) {
    significand |= std::uint64_t{1} << 52;
    position = exponent - 1;
  }
  const int chunk = position / kDigitBits, shift = position % kDigitBits;
  const std::uint64_t low = significand << shift & kDigitMask;
  const std::uint64_t rest = significand >> (kDigitBits - shift);  // shift = 0: the upper 21 bits
  const auto digit0 = static_cast<std::int64_t>(low);
  const auto digit1 = static_cast<std::int64_t>(rest & kDigitMask);
  const auto digit2 = static_cast<std::int64_t>(rest >> kDigitBits);
  if (negative) {
    chunk_[chunk] -= digit0;
    chunk_[chunk + 1] -= digit1;
    chunk_[chunk + 2] -= digit2;
  } else {
    chunk_[chunk] += digit0;
    chunk_[chunk + 1] += digit1;
    chunk_[chunk + 2] += digit2;
  }
  if (++pending_ >= kMaxPending) propagate();
}

void ExactSum::addProduct(double a, double b) {
  const double product = a * b;
  add(product);
  if (std::isfinite(product)) add(std::fma(a, b, -product));
}

// Brings every chunk but the last into [0, 2^32); the last keeps the sign.
void ExactSum::propagate() {
  std::int64_t carry = 0;
  for (int i = 0; i < kChunks - 1; i++) {
    const std::int64_t value = chunk_[i] + carry;
    carry = value >> kDigitBits;  // floor
    chunk_[i] = value & static_cast<std::int64_t>(kDigitMask);
  }
  chunk_[kChunks - 1] += carry;
  pending_ = 0;
}

double ExactSum::round() const {
  if (nan_ > 0 || (positiveInfinity_ > 0 && negativeInfinity_ > 0)) return kNaN;
  if (positiveInfinity_ > 0) return kInfinity;
  if (negativeInfinity_ > 0) return -kInfinity;

  ExactSum magnitude = *this;
  magnitude.propagate();
  const bool negative = magnitude.chunk_[kChunks - 1] < 0;
  if (negative) {
    for (std::int64_t& chunk : magnitude.chunk_) chunk = -chunk;
    magnitude.propagate();
  }
  const std::int64_t* digits = magnitude.chunk_;
  int top = kChunks - 1;
  while (top >= 0 && digits[top] == 0) top--;
  if (top < 0) return 0.0;

  // The last chunk may exceed 32 bits; its place is far beyond the largest double.
  const double sign = negative ? -1.0 : 1.0;
  const int width = std::bit_width(static_cast<std::uint64_t>(digits[top]));
  const int leading = top * kDigitBits + width - 1;  // place of the first one bit, from 2^-1074
  if (leading > 2097) return sign * kInfinity;

  // Bits [lowest, leading] make the significand; for a subnormal lowest is 0 and nothing is cut off.
  int lowest = leading > 52 ? leading - 52 : 0;
  std::uint64_t significand = 0;
  for (int i = top; i >= 0; i--) {
    const int place = i * kDigitBits - lowest;  // of this chunk's last bit in the significand
    if (place <= -kDigitBits) break;
    const auto digit = static_cast<std::uint64_t>(digits[i]);
    significand |= place >= 0 ? digit << place : digit >> -place;
  }
  if (lowest > 0) {
    const int halfPlace = lowest - 1;
    const bool half = digits[halfPlace / kDigitBits] >> halfPlace % kDigitBits & 1;
    bool sticky = (digits[halfPlace / kDigitBits] & ((std::int64_t{1} << halfPlace % kDigitBits) - 1)) != 0;
    for (int i = halfPlace / kDigitBits - 1; i >= 0 && !sticky; i--) sticky = digits[i] != 0;
    if (half && (sticky || (significand & 1) != 0)) significand++;  // may become 2^53: the next binade, exactly
  }
  return sign * std::ldexp(static_cast<double>(significand), lowest - 1074);
}

}  // namespace collapsar
