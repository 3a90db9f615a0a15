// 16 bytes of a tensor: 8 bfloat16 or float16, 4 float32, 2 float64. Unpacking, packed maxima, elements set to -inf.
#pragma once

#include "host_device.h"

namespace collapsar::cuda {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

constexpr int kVectorBytes = 16;

struct alignas(16) Vector {
  uint32_t words[4];
};

// What elements of type T are computed in, and how many a vector has.
template <class T>
struct Element;
template <>
struct Element<BFloat16> {
  using Compute = float;
  static constexpr int kPerVector = 8;
  static constexpr uint32_t kMinusInfinity = 0xff80u;
};
template <>
struct Element<Float16> {
  using Compute = float;
  static constexpr int kPerVector = 8;
  static constexpr uint32_t kMinusInfinity = 0xfc00u;
};
template <>
struct Element<float> {
  using Compute = float;
  static constexpr int kPerVector = 4;
};
template <>
struct Element<double> {
  using Compute = double;
  static constexpr int kPerVector = 2;
};

COLLAPSAR_BOTH float floatOf(BFloat16 x) { return floatOfBits(static_cast<uint32_t>(x.bits) << 16); }
COLLAPSAR_BOTH float floatOf(Float16 x) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return floatOfBits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x0400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return floatOfBits(sign | ((magnitude << 13) + 0x38000000u));
#endif
}
COLLAPSAR_BOTH float floatOf(float x) { return x; }
COLLAPSAR_BOTH double floatOf(double x) { return x; }

COLLAPSAR_BOTH void unpack(const Vector& v, BFloat16, float (&x)[8]) {
  COLLAPSAR_UNROLLED
  for (int i = 0; i < 4; i++) {
    x[2 * i] = floatOfBits(v.words[i] << 16);
    x[2 * i + 1] = floatOfBits(v.words[i] & 0xffff0000u);
  }
}
COLLAPSAR_BOTH void unpack(const Vector& v, Float16, float (&x)[8]) {
  COLLAPSAR_UNROLLED
  for (int i = 0; i < 4; i++) {
    x[2 * i] = floatOf(Float16{static_cast<uint16_t>(v.words[i])});
    x[2 * i + 1] = floatOf(Float16{static_cast<uint16_t>(v.words[i] >> 16)});
  }
}
COLLAPSAR_BOTH void unpack(const Vector& v, float, float (&x)[4]) {
  COLLAPSAR_UNROLLED
  for (int i = 0; i < 4; i++) x[i] = floatOfBits(v.words[i]);
}
COLLAPSAR_BOTH void unpack(const Vector& v, double, double (&x)[2]) {
  COLLAPSAR_UNROLLED
  for (int i = 0; i < 2; i++) {
    x[i] = doubleOfBits(static_cast<uint64_t>(v.words[2 * i + 1]) << 32 | v.words[2 * i]);
  }
}

template <class T>
COLLAPSAR_BOTH void unpack(const Vector& v, typename Element<T>::Compute (&x)[Element<T>::kPerVector]) {
  unpack(v, T{}, x);
}

// The larger; NaN if either is (the hardware's max.NaN, one instruction for two 16-bit elements).
COLLAPSAR_BOTH float maxOrNan(float a, float b) {
#if defined(__CUDA_ARCH__)
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return a != a || a > b ? a : b;
#endif
}
COLLAPSAR_BOTH double maxOrNan(double a, double b) { return a != a || a > b ? a : b; }

COLLAPSAR_BOTH uint32_t maxPair(uint32_t a, uint32_t b, BFloat16) {
#if defined(__CUDA_ARCH__)
  uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  const float low = maxOrNan(floatOfBits(a << 16), floatOfBits(b << 16));
  const float high = maxOrNan(floatOfBits(a & 0xffff0000u), floatOfBits(b & 0xffff0000u));
  return bitsOfFloat(low) >> 16 | (bitsOfFloat(high) & 0xffff0000u);
#endif
}
COLLAPSAR_BOTH uint32_t maxPair(uint32_t a, uint32_t b, Float16) {
#if defined(__CUDA_ARCH__)
  uint32_t larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  const auto half = [](uint32_t x, uint32_t y) {
    const float p = floatOf(Float16{static_cast<uint16_t>(x)}), q = floatOf(Float16{static_cast<uint16_t>(y)});
    return p != p || p > q ? x & 0xffffu : y & 0xffffu;
  };
  return half(a, b) | half(a >> 16, b >> 16) << 16;
#endif
}

// The largest element of several vectors; NaN if there is one.
template <class T, int kVectors>
COLLAPSAR_BOTH typename Element<T>::Compute largestOf(const Vector (&v)[kVectors]) {
  using C = typename Element<T>::Compute;
  if constexpr (sizeof(T) == 2) {
    uint32_t largest = v[0].words[0];
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kVectors; i++) {
      COLLAPSAR_UNROLLED
      for (int w = i == 0 ? 1 : 0; w < 4; w++) largest = maxPair(largest, v[i].words[w], T{});
    }
    const C low = floatOf(T{static_cast<uint16_t>(largest)}), high = floatOf(T{static_cast<uint16_t>(largest >> 16)});
    return maxOrNan(low, high);
  } else {
    // By vectors, which do not wait for each other.
    C largest[kVectors];
    COLLAPSAR_UNROLLED
    for (int i = 0; i < kVectors; i++) {
      C x[Element<T>::kPerVector];
      unpack<T>(v[i], x);
      largest[i] = x[0];
      COLLAPSAR_UNROLLED
      for (int e = 1; e < Element<T>::kPerVector; e++) largest[i] = maxOrNan(largest[i], x[e]);
    }
    COLLAPSAR_UNROLLED
    for (int step = 1; step < kVectors; step *= 2) {
      COLLAPSAR_UNROLLED
      for (int i = 0; i + step < kVectors; i += 2 * step) largest[i] = maxOrNan(largest[i], largest[i + step]);
    }
    return largest[0];
  }
}

// Elements whose bit is set become -inf.
template <class T>
COLLAPSAR_BOTH Vector hiding(Vector v, uint32_t hidden) {
  if constexpr (sizeof(T) == 2) {
    constexpr uint32_t low = Element<T>::kMinusInfinity;
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 4; w++) {
      if (hidden >> (2 * w) & 1u) v.words[w] = (v.words[w] & 0xffff0000u) | low;
      if (hidden >> (2 * w + 1) & 1u) v.words[w] = (v.words[w] & 0xffffu) | low << 16;
    }
  } else if constexpr (sizeof(T) == 4) {
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 4; w++) {
      if (hidden >> w & 1u) v.words[w] = 0xff800000u;
    }
  } else {
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 2; w++) {
      if (hidden >> w & 1u) {
        v.words[2 * w] = 0;
        v.words[2 * w + 1] = 0xfff00000u;
      }
    }
  }
  return v;
}

// One element put into a vector of nothing but -inf and others put before.
template <class T>
COLLAPSAR_BOTH void put(Vector& v, int element, T x) {
  if constexpr (sizeof(T) == 2) {
    const uint32_t shift = element % 2 == 0 ? 0 : 16;
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 4; w++) {
      if (w == element / 2) v.words[w] = (v.words[w] & ~(0xffffu << shift)) | static_cast<uint32_t>(x.bits) << shift;
    }
  } else if constexpr (sizeof(T) == 4) {
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 4; w++) {
      if (w == element) v.words[w] = bitsOfFloat(x);
    }
  } else {
    COLLAPSAR_UNROLLED
    for (int w = 0; w < 2; w++) {
      if (w == element) {
        const uint64_t bits = bitsOfDouble(x);
        v.words[2 * w] = static_cast<uint32_t>(bits);
        v.words[2 * w + 1] = static_cast<uint32_t>(bits >> 32);
      }
    }
  }
}

template <class T>
COLLAPSAR_BOTH Vector nothing() {
  return hiding<T>(Vector{{0, 0, 0, 0}}, 0xffu);
}

}  // namespace collapsar::cuda
