// An element type's number -> the type, for what is compiled once for each.
#pragma once

#include <cstdint>
#include <type_traits>

#include "dtype.h"
#include "half.h"

namespace collapsar {

// What scores of type T are computed in.
template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// `of` with an element of that type.
template <class Of>
auto withType(DType dtype, Of of) {
  switch (dtype) {
    case DType::Float64:
      return of(double{});
    case DType::Float32:
      return of(float{});
    case DType::Float16:
      return of(Float16Bits{});
    case DType::BFloat16:
      break;
  }
  return of(BFloat16Bits{});
}

// The same for what only moves elements: both types of 16 bits are one.
template <class Of>
auto withStorage(DType dtype, Of of) {
  switch (dtype) {
    case DType::Float64:
      return of(double{});
    case DType::Float32:
      return of(float{});
    case DType::Float16:
    case DType::BFloat16:
      break;
  }
  return of(std::uint16_t{});
}

}  // namespace collapsar
