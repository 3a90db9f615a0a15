// What the rest of the engine takes exponentials and logarithms by: of arrays of doubles, and of one double.
#pragma once

#include <stdint.h>

#include "engine/deterministic_math.h"
#include "exponentials.inl.h"
#include "logarithms.inl.h"
#include "scalars.inl.h"

namespace collapsar {
namespace {

void exponentialsOf(const double* values, int64_t count, double* out) {
  const DoubleVec least = splat(-708.0);
  for (int64_t i = 0; i < count; i += DoubleVec::kLanes) {
    const DoubleVec x = load(values + i);
    store(out + i, select(greater(least, x), splat(0.0), Exponential<DoubleVec>::of(x)));
  }
}

void logarithmsOf(const double* values, int64_t count, double* out) {
  for (int64_t i = 0; i < count; i += DoubleVec::kLanes) {
    const DoubleVec x = load(values + i);
    store(out + i, select(equal(x, splat(0.0)), splat(-kInfinity), logOf(x)));
  }
}

double logAlone(double value) { return deterministicLog(value); }

}  // namespace
}  // namespace collapsar
