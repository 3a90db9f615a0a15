// A step's rows -> the exact means, deviations and hit counts that docs/reference/metrics.md's metrics are made of.
#pragma once

#include "score_stats.h"

namespace collapsar {

struct Moments {
  double mean;  // correctly rounded sum / rows
  double std;   // population
};

struct StepMoments {
  std::int64_t rows;
  Moments matchedToken, marginalToken, matchedSeq, marginalSeq;
  Moments excessSeq;       // matchedSeq - marginalSeq
  Moments excessToken;     // matchedToken - marginalToken
  Moments excessPerToken;  // (matchedSeq - marginalSeq) / max(length,1): Eq. 1 per token
  Moments looExcessSeq;    // matchedSeq - looMarginalSeq; NaN if a row has none
  Moments posteriorEntropy;
  std::int64_t hits[4];  // rows whose top 1, 2, 4, 8 columns hold the own signature
};

// stats as scoreStats wrote them. Order of rows does not change a bit.
StepMoments stepMoments(const RowStats& stats, const std::int64_t* lengths, std::int64_t rowCount);

}  // namespace collapsar
