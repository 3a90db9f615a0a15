// Virtual lanes: a fixed number of them, whatever the width of the machine's vectors, folded by halves.
#pragma once

namespace collapsar {
namespace {

template <class V, int Lanes>
struct Wide {
  static constexpr int kParts = Lanes / V::kLanes;
  V part[kParts];
};

template <class V, int Lanes>
COLLAPSAR_INLINE Wide<V, Lanes> splat(typename V::Scalar x) {
  Wide<V, Lanes> out;
#pragma GCC unroll 16
  for (int i = 0; i < Wide<V, Lanes>::kParts; i++) out.part[i] = splat(x);
  return out;
}

template <int Lanes>
COLLAPSAR_INLINE double reduceSum(Wide<DoubleVec, Lanes> a) {
#pragma GCC unroll 4
  for (int half = Wide<DoubleVec, Lanes>::kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; i++) a.part[i] = add(a.part[i], a.part[i + half]);
  }
  return reduceSum(a.part[0]);
}

template <class V, int Lanes>
COLLAPSAR_INLINE typename V::Scalar reduceMax(Wide<V, Lanes> a) {
#pragma GCC unroll 4
  for (int half = Wide<V, Lanes>::kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; i++) a.part[i] = max(a.part[i], a.part[i + half]);
  }
  return reduceMax(a.part[0]);
}

}  // namespace
}  // namespace collapsar
