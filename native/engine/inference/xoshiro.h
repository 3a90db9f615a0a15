// The generator of src/metrics/sampling/random.ts: the same state gives the same draws.
#pragma once

#include <cstdint>
#include <utility>

namespace collapsar {

// xoshiro128** (D. Blackman and S. Vigna, 2018).
class Xoshiro128 {
 public:
  explicit Xoshiro128(const std::uint32_t (&state)[4]) : state_{state[0], state[1], state[2], state[3]} {}

  std::uint32_t next() {
    const std::uint32_t result = rotated(state_[1] * 5, 7) * 9, shifted = state_[1] << 9;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 11);
    return result;
  }

  // Uniform in [0, bound), bound >= 1. Draws past the last whole multiple of it would favour small numbers.
  std::uint32_t below(std::uint32_t bound) {
    for (;;) {
      const std::uint32_t draw = next(), result = draw % bound;
      if (draw - result <= 0u - bound) return result;
    }
  }

  // Fisher-Yates, the last value first.
  template <typename Value>
  void shuffle(Value* values, std::int64_t count) {
    for (std::int64_t at = count - 1; at > 0; at--) {
      std::swap(values[at], values[below(static_cast<std::uint32_t>(at + 1))]);
    }
  }

 private:
  static std::uint32_t rotated(std::uint32_t value, int left) { return value << left | value >> (32 - left); }

  std::uint32_t state_[4];
};

}  // namespace collapsar
