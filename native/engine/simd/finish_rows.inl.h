// The end of rows: from the exponential sums of both groups of columns to the log-sums, several rows at once.
//
// Alone, a row's four logarithms and two exponentials come one after the other; they took longer than all
// else at 64 columns and fewer. Included by kernels.inl.h.
#pragma once

namespace collapsar {
namespace {

// ln x as deterministicLog has it, bit for bit, for normal x > 0.
COLLAPSAR_INLINE DoubleVec logOf(DoubleVec x) {
  DoubleVec m, k;
  splitPower(x, m, k);
  const DoubleVec f = sub(m, set(1.0));
  const DoubleVec s = div(f, add(set(2.0), f));
  const DoubleVec z = mul(s, s);
  DoubleVec q = set(kLogCoefficients[6]);
#pragma GCC unroll 6
  for (int i = 5; i >= 0; i--) q = fma(q, z, set(kLogCoefficients[i]));
  const DoubleVec minusZ = sub(set(0.0), z), minusS = sub(set(0.0), s);
  const DoubleVec small = fma(minusS, fma(minusZ, q, f), mul(k, set(kLn2Low)));
  return fma(k, set(kLn2High), add(f, small));
}

COLLAPSAR_INLINE void finishLanes(const BatchSums& others, const BatchSums& same, const double* lengths,
                                  double logColumns, const double* logOthers, int at, BatchLogSums* out) {
  const DoubleVec none = set(-kInfinity), floor = set(Exponential<DoubleVec>::kFloor), length = load(lengths + at);
  const DoubleVec otherReference = load(others.reference + at), sameReference = load(same.reference + at);
  const DoubleVec otherS = load(others.s + at), sameS = load(same.s + at);
  const DoubleVec otherT = load(others.t + at), sameT = load(same.t + at);
  const DoubleVec otherToken = load(others.sToken + at), sameToken = load(same.sToken + at);

  // ln s - ln n before the reference is added: for equal scores that is 0, and the mean comes out exactly. Where
  // nothing but -inf has come, the reference is that, and so is the sum.
  const DoubleVec logCount = load(logOthers + at);
  store(out->looMarginalSeq + at, add(otherReference, sub(logOf(otherS), logCount)));
  store(out->looMarginalToken + at, add(div(otherReference, length), sub(logOf(otherToken), logCount)));

  // The group with the lower reference is brought to the higher one. With -inf - -inf the floor, too, is taken.
  const DoubleMask otherHigher = greater(otherReference, sameReference);
  const DoubleVec reference = select(otherHigher, otherReference, sameReference);
  const DoubleVec fall = sub(select(otherHigher, sameReference, otherReference), reference);
  const DoubleVec floored = larger(fall, floor), flooredToken = larger(div(fall, length), floor);
  const DoubleVec scale = Exponential<DoubleVec>::of(floored), scaleToken = Exponential<DoubleVec>::of(flooredToken);
  const DoubleVec lowS = select(otherHigher, sameS, otherS), highS = select(otherHigher, otherS, sameS);
  const DoubleVec lowT = select(otherHigher, sameT, otherT), highT = select(otherHigher, otherT, sameT);
  const DoubleVec lowToken = select(otherHigher, sameToken, otherToken);
  const DoubleVec highToken = select(otherHigher, otherToken, sameToken);
  const DoubleVec s = add(highS, mul(scale, lowS)), t = add(highT, mul(scale, fma(lowS, floored, lowT)));
  const DoubleVec sToken = add(highToken, mul(scaleToken, lowToken));

  const DoubleMask nothing = equal(reference, none);
  const DoubleVec logS = logOf(s), columns = set(logColumns);
  const DoubleVec marginalToken = add(div(reference, length), sub(logOf(sToken), columns));
  store(out->marginalSeq + at, select(nothing, none, add(reference, sub(logS, columns))));
  store(out->marginalToken + at, select(nothing, none, marginalToken));
  // Below 2^-100 stands only what the floor of the exponentials left of -inf.
  const DoubleVec entropy = sub(logS, div(t, s));
  const DoubleVec notNegative = select(greater(entropy, set(0x1p-100)), entropy, set(0.0));
  store(out->posteriorEntropy + at, select(nothing, set(kUndefined), notNegative));
}

void finishRowsOf(const BatchSums* others, const BatchSums* same, const double* lengths, double logColumns,
                  const double* logOthers, int count, BatchLogSums* out) {
  for (int at = 0; at < count; at += DoubleVec::kLanes) {
    finishLanes(*others, *same, lengths, logColumns, logOthers, at, out);
  }
}

}  // namespace
}  // namespace collapsar
