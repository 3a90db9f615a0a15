// The end of a row: sums -> results, in double. Compiled for the host's tests, too. Special values as in native/engine.
#pragma once

#include "exponential_sums.h"

namespace collapsar::cuda {

struct LogitResult {
  double logsumexp, entropy, targetLogprob;
};

COLLAPSAR_BOTH LogitResult logitResult(const WideSums& sums, double best, double target, bool hasTarget,
                                       double temperature) {
  if (best != best) return {undefined(), undefined(), undefined()};
  if (best == kHugeDouble || isEmpty(sums)) return {best, undefined(), undefined()};
  const double logS = log(sums.s);
  LogitResult out;
  out.logsumexp = sums.base / temperature + fma(sums.power, kLn2, logS);
  // Below 2^-100 stands only what the depth of the exponentials left of -inf; below 0, rounding.
  out.entropy = logS - kLn2 * sums.t / sums.s;
  if (!(out.entropy > 0x1p-100)) out.entropy = 0.0;
  out.targetLogprob = undefined();
  if (hasTarget) {
    // Not by way of the log-sum-exp, whose own rounding grows with the logits.
    out.targetLogprob = fma(-sums.power, kLn2, (target - sums.base) / temperature) - logS;
    if (out.targetLogprob > 0.0) out.targetLogprob = 0.0;
  }
  return out;
}

// The columns of a row of scores that are not equivalent to its own, or those that are: sums of the scores and of the
// per-token means, and the largest score (NaN if there is one).
struct ScoreGroup {
  WideSums seq, token;  // token.t is not kept
  double best;
};

// A log-sum-exp less ln(count). That comes off before the reference is added: of equal scores it leaves 0.
COLLAPSAR_BOTH double logMeanOf(const WideSums& sums, double best, double length, double logCount) {
  if (best != best) return undefined();
  if (best == kHugeDouble || isEmpty(sums)) return best;
  return sums.base / length + fma(sums.power, kLn2, log(sums.s) - logCount);
}

// Of the columns as answers to choose from: the sums of sequences.
COLLAPSAR_BOTH double posteriorEntropyOf(const WideSums& seq, double best) {
  if (!(best < kHugeDouble) || isEmpty(seq)) return undefined();
  const double entropy = log(seq.s) - kLn2 * seq.t / seq.s;
  return entropy > 0x1p-100 ? entropy : 0.0;
}

}  // namespace collapsar::cuda
