// The element types of input tensors, and what they cost.
#pragma once

#include <cstddef>
#include <cstdint>

namespace collapsar {

enum class DType : std::uint8_t { Float64 = 0, Float32 = 1, Float16 = 2, BFloat16 = 3 };

constexpr std::size_t sizeOf(DType dtype) { return dtype == DType::Float64 ? 8 : dtype == DType::Float32 ? 4 : 2; }

}  // namespace collapsar
