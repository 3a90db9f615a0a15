// What every vec_<isa>.h begins with: how its functions are marked, and elements of 16 bits as they lie in memory.
#pragma once

#include <stdint.h>

#define COLLAPSAR_INLINE inline __attribute__((always_inline))

namespace collapsar {
namespace {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

}  // namespace
}  // namespace collapsar
