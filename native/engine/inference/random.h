// Random numbers by counter: number n of stream s is a function of (seed, s, n) alone, so streams can be drawn in any
// order on any thread. Philox4x32-10 of J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <cstdint>

namespace collapsar {

class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint32_t next() {
    if (used_ == 4) refill();
    return block_[used_++];
  }

  // Uniform in [0, bound), bound >= 1, without bias: D. Lemire, "Fast random integer generation in an interval" (2019).
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  void refill() {
    std::uint32_t c0 = static_cast<std::uint32_t>(counter_), c1 = static_cast<std::uint32_t>(counter_ >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(stream_), c3 = static_cast<std::uint32_t>(stream_ >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed_), k1 = static_cast<std::uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; round++) {
      const std::uint64_t m0 = std::uint64_t{0xD2511F53u} * c0, m1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<std::uint32_t>(m1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(m1);
      c2 = static_cast<std::uint32_t>(m0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(m0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    block_[0] = c0;
    block_[1] = c1;
    block_[2] = c2;
    block_[3] = c3;
    counter_++;
    used_ = 0;
  }

  std::uint64_t seed_, stream_, counter_ = 0;
  std::uint32_t block_[4] = {};
  int used_ = 4;
};

}  // namespace collapsar
