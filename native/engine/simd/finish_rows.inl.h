// The end of rows: from exponential sums to statistics, several rows at once. Alone, a row's four logarithms and two
// exponentials would take longer than all else at 64 columns and fewer. Included by kernels.inl.h.
#pragma once

#include <stdint.h>

#include "exponentials.inl.h"
#include "kernel_table.h"
#include "logarithms.inl.h"
#include "scalars.inl.h"

namespace collapsar {
namespace {

// One NaN, whatever the machine makes.
COLLAPSAR_INLINE void storeCanonical(double* to, DoubleVec x) { store(to, select(equal(x, x), x, splat(kUndefined))); }

COLLAPSAR_INLINE void finishLanes(const BatchSums& others, const BatchSums& same, const double* own,
                                  const double* lengths, double logColumns, const double* logOthers, int at,
                                  const BatchFields& out) {
  const DoubleVec none = splat(-kInfinity), floor = splat(Exponential<DoubleVec>::kFloor), length = load(lengths + at);
  const DoubleVec otherReference = load(others.reference + at), sameReference = load(same.reference + at);
  const DoubleVec otherS = load(others.s + at), sameS = load(same.s + at);
  const DoubleVec otherT = load(others.t + at), sameT = load(same.t + at);
  const DoubleVec otherToken = load(others.sToken + at), sameToken = load(same.sToken + at);

  // The group with the lower reference is brought to the higher one. With -inf - -inf the floor, too, is taken.
  const DoubleMask otherHigher = greater(otherReference, sameReference);
  const DoubleVec reference = select(otherHigher, otherReference, sameReference);
  const DoubleVec fall = sub(select(otherHigher, sameReference, otherReference), reference);
  const DoubleVec floored = max(fall, floor), flooredToken = max(div(fall, length), floor);
  const DoubleVec scale = Exponential<DoubleVec>::of(floored), scaleToken = Exponential<DoubleVec>::of(flooredToken);
  const DoubleVec lowS = select(otherHigher, sameS, otherS), highS = select(otherHigher, otherS, sameS);
  const DoubleVec lowT = select(otherHigher, sameT, otherT), highT = select(otherHigher, otherT, sameT);
  const DoubleVec lowToken = select(otherHigher, sameToken, otherToken);
  const DoubleVec highToken = select(otherHigher, otherToken, sameToken);
  const DoubleVec s = add(highS, mul(scale, lowS)), t = add(highT, mul(scale, fma(lowS, floored, lowT)));
  const DoubleVec sToken = add(highToken, mul(scaleToken, lowToken));

  const DoubleVec sums[4] = {otherS, otherToken, s, sToken};
  DoubleVec logs[4];
  logsOf(sums, logs);

  const DoubleVec matched = load(own + at);
  storeCanonical(out.matchedSeq + at, matched);
  storeCanonical(out.matchedToken + at, div(matched, length));
  // ln s - ln n before the reference is added: for equal scores that is 0, and the mean comes out exactly. Where
  // nothing but -inf has come, the reference is that, and so is the sum.
  const DoubleVec logCount = load(logOthers + at), columns = splat(logColumns);
  storeCanonical(out.looMarginalSeq + at, add(otherReference, sub(logs[0], logCount)));
  storeCanonical(out.looMarginalToken + at, add(div(otherReference, length), sub(logs[1], logCount)));
  const DoubleMask nothing = equal(reference, none);
  const DoubleVec marginalToken = add(div(reference, length), sub(logs[3], columns));
  storeCanonical(out.marginalSeq + at, select(nothing, none, add(reference, sub(logs[2], columns))));
  storeCanonical(out.marginalToken + at, select(nothing, none, marginalToken));
  // Below 2^-100 stands only what the floor of the exponentials left of -inf.
  const DoubleVec entropy = sub(logs[2], div(t, s));
  const DoubleVec notNegative = select(greater(entropy, splat(0x1p-100)), entropy, splat(0.0));
  storeCanonical(out.posteriorEntropy + at, select(nothing, splat(kUndefined), notNegative));
}

void finishRowsOf(const BatchSums* others, const BatchSums* same, const double* own, const double* lengths,
                  double logColumns, const double* logOthers, int count, const BatchFields* out) {
  for (int at = 0; at < count; at += DoubleVec::kLanes) {
    finishLanes(*others, *same, own, lengths, logColumns, logOthers, at, *out);
  }
}

}  // namespace
}  // namespace collapsar
