// How many elements of a few vectors lie above a target, and how many equal it. A comparison gives 1 or 0 in the
// elements' own type, and those are added in it, exactly, for they are few: 2 instructions an element of 16 bits (two
// at a time) and 4 one of float32. Of counting in integers the compiler makes 7, and an H200's memory leaves time for
// 13.8 in all (logit_rows.cu).
#pragma once

#include <type_traits>

#include "element_vectors.h"

namespace collapsar::cuda {

#if !defined(__CUDA_ARCH__)
// What the packed instructions below do, on the host: `of` for both elements of a word; its results are whole numbers.
inline uint32_t wholeNumber(float n, BFloat16) { return bitsOfFloat(n) >> 16; }
inline uint32_t wholeNumber(float n, Float16) { return n == 0.0f ? 0u : (bitsOfFloat(n) >> 13) - (112u << 10); }
template <class T, class Of>
inline uint32_t ofPairs(uint32_t a, uint32_t b, T, Of of) {
  const auto one = [of](uint32_t x, uint32_t y) {
    return wholeNumber(of(floatOf(T{static_cast<uint16_t>(x)}), floatOf(T{static_cast<uint16_t>(y)})), T{});
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

// The same for the two elements of a word, and the sums of two words' elements.
template <class T>
COLLAPSAR_BOTH uint32_t onesIfAbove(uint32_t a, uint32_t b, T type) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("set.gt.bf16x2.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  return ofPairs(a, b, type, [](float x, float y) { return oneIfAbove(x, y); });
#endif
}
template <class T>
COLLAPSAR_BOTH uint32_t onesIfEqual(uint32_t a, uint32_t b, T type) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("set.eq.f16x2.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("set.eq.bf16x2.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  return ofPairs(a, b, type, [](float x, float y) { return oneIfEqual(x, y); });
#endif
}
template <class T>
COLLAPSAR_BOTH uint32_t addedPairs(uint32_t a, uint32_t b, T type) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("add.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#else
  return ofPairs(a, b, type, [](float x, float y) { return x + y; });
#endif
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
    uint32_t aboveOnes = 0, equalOnes = 0;
    COLLAPSAR_UNROLLED
    for (int i = 0; i < 4 * kVectors; i++) {
      const uint32_t word = v[i / 4].words[i % 4];
      aboveOnes = addedPairs(aboveOnes, onesIfAbove(word, targets, target), target);
      equalOnes = addedPairs(equalOnes, onesIfEqual(word, targets, target), target);
    }
    const auto total = [](uint32_t ones) {
      return static_cast<int>(floatOf(T{static_cast<uint16_t>(ones)}) + floatOf(T{static_cast<uint16_t>(ones >> 16)}));
    };
    above += total(aboveOnes);
    equal += total(equalOnes);
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
