// Natural logarithms of doubles, several vectors side by side.
#pragma once

#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

// ln x, bit for bit as deterministicLog, for normal x > 0. Side by side: each begins with a division.
template <int N>
COLLAPSAR_INLINE void logsOf(const DoubleVec (&x)[N], DoubleVec (&out)[N]) {
  DoubleVec k[N], f[N], s[N], z[N], q[N];
#pragma GCC unroll 4
  for (int j = 0; j < N; j++) {
    DoubleVec m;
    splitPower(x[j], m, k[j]);
    f[j] = sub(m, splat(1.0));
    s[j] = div(f[j], add(splat(2.0), f[j]));
    z[j] = mul(s[j], s[j]);
    q[j] = splat(kLogCoefficients[6]);
  }
#pragma GCC unroll 6
  for (int i = 5; i >= 0; i--) {
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) q[j] = fma(q[j], z[j], splat(kLogCoefficients[i]));
  }
#pragma GCC unroll 4
  for (int j = 0; j < N; j++) {
    const DoubleVec minusZ = sub(splat(0.0), z[j]), minusS = sub(splat(0.0), s[j]);
    const DoubleVec small = fma(minusS, fma(minusZ, q[j], f[j]), mul(k[j], splat(kLn2Low)));
    out[j] = fma(k[j], splat(kLn2High), add(f[j], small));
  }
}
COLLAPSAR_INLINE DoubleVec logOf(DoubleVec x) {
  const DoubleVec of[1] = {x};
  DoubleVec log[1];
  logsOf(of, log);
  return log[0];
}

}  // namespace
}  // namespace collapsar
