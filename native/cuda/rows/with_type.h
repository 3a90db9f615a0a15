// The C ABI's number of an element type -> the type, for what is compiled once for each.
#pragma once

#include "cuda/backend.h"
#include "element_vectors.h"

namespace collapsar::cuda {

// `of` with an element of that type.
template <class Of>
auto withType(int32_t dtype, Of of) {
  switch (dtype) {
    case COLLAPSAR_CUDA_FLOAT64:
      return of(double{});
    case COLLAPSAR_CUDA_FLOAT32:
      return of(float{});
    case COLLAPSAR_CUDA_FLOAT16:
      return of(Float16{});
    default:
      return of(BFloat16{});
  }
}

}  // namespace collapsar::cuda
