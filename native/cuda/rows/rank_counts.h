// How many elements of a few vectors lie above a target, and how many equal it.
//
// 16-bit elements are compared two at a time. A true comparison is -1 as an integer, so answers are added as integers,
// three in an instruction: 1.5 instructions an element, where ones of the elements' type would take 2, and integer
// counters 7. float32 takes the ones, with 4. An H200 has time for 13.8 (cuda/logits/logit_rows.cu).
#pragma once

#include <type_traits>

#include "element_vectors.h"

namespace collapsar::cuda {

#if !defined(__CUDA_ARCH__)
// What the packed instructions below do, on the host: all bits of an element where `holds` for it and the other's.
template <class T, class Holds>
inline uint32_t ofPairs(uint32_t a, uint32_t b, T, Holds holds) {
  const auto one = [holds](uint32_t x, uint32_t y) {
    return holds(floatOf(T{static_cast<uint16_t>(x)}), floatOf(T{static_cast<uint16_t>(y)})) ? 0xffffu : 0u;
  };
  return one(a, b) | one(a >> 16, b >> 16) << 16;
}
#endif

// 1 where a > b, 1 where a == b, else 0.
COLLAPSAR_BOTH float oneIfAbove(float a, float b) {
#if defined(__CUDA_ARCH__)
  float one;
  asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(a), "f"(b));
  return one;
#else
  return a > b ? 1.0f : 0.0f;
#endif
}
COLLAPSAR_BOTH float oneIfEqual(float a, float b) {
#if defined(__CUDA_ARCH__)
  float one;
  asm("set.eq.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(a), "f"(b));
  return one;
#else
  return a == b ? 1.0f : 0.0f;
#endif
}
COLLAPSAR_BOTH int oneIfAbove(double a, double b) { return a > b ? 1 : 0; }
COLLAPSAR_BOTH int oneIfEqual(double a, double b) { return a == b ? 1 : 0; }

// The same for the two elements of a word: 0xffff where it holds.
template <class T>
COLLAPSAR_BOTH uint32_t maskIfAbove(uint32_t a, uint32_t b, T type) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  return ofPairs(a, b, type, [](float x, float y) { return x > y; });
#endif
}
template <class T>
COLLAPSAR_BOTH uint32_t maskIfEqual(uint32_t a, uint32_t b, T type) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("set.eq.u32.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("set.eq.u32.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  return ofPairs(a, b, type, [](float x, float y) { return x == y; });
#endif
}

// How many halves of the words are set whose sum this is, modulo 2^32, fewer than 2^15 in all: a low one takes 1 from
// the high ones' sum.
COLLAPSAR_BOTH int halvesSet(uint32_t sum) {
  const int low = static_cast<int>(-sum & 0xffffu), highLessLow = static_cast<int>(-sum) >> 16;
  return highLessLow + 2 * low;
}

// GPUs before 9.0 compare bfloat16 as float32 alone.
template <class T>
constexpr bool kPaired = sizeof(T) == 2;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <>
constexpr bool kPaired<BFloat16> = false;
#endif

// Adds to both; kVectors <= 32, so that every sum is exact in any type. NaN is neither above nor equal.
template <class T, int kVectors>
COLLAPSAR_BOTH void countRanks(const Vector (&v)[kVectors], T target, int& above, int& equal) {
  if constexpr (kPaired<T>) {
    const uint32_t targets = target.bits | static_cast<uint32_t>(target.bits) << 16;
    uint32_t aboveSum = 0, equalSum = 0;
    COLLAPSAR_UNROLLED
    for (int i = 0; i < 4 * kVectors; i++) {
      const uint32_t word = v[i / 4].words[i % 4];
      aboveSum += maskIfAbove(word, targets, target);
      equalSum += maskIfEqual(word, targets, target);
    }
    above += halvesSet(aboveSum);
    equal += halvesSet(equalSum);
  } else {
    using C = typename Element<T>::Compute;
    decltype(oneIfAbove(C{}, C{})) aboveOnes = 0, equalOnes = 0;
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kVectors; i++) {
      C x[Element<T>::kPerVector];
      unpack<T>(v[i], x);
      COLLAPSAR_UNROLLED
      for (int e = 0; e < Element<T>::kPerVector; e++) {
        aboveOnes += oneIfAbove(x[e], floatOf(target));
        equalOnes += oneIfEqual(x[e], floatOf(target));
      }
    }
    above += static_cast<int>(aboveOnes);
    equal += static_cast<int>(equalOnes);
  }
}

}  // namespace collapsar::cuda
