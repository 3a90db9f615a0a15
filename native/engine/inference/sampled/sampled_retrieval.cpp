#include "sampled_retrieval.h"

#include <algorithm>
#include <limits>

namespace collapsar {

namespace {

// C(n - better, c) / C(n, c): c of n drawn, none of them among the better ones.
double noneBetter(std::int64_t n, std::int64_t better, std::int64_t c) {
  double chance = 1;
  for (std::int64_t i = 0; i < c; i++) {
    chance *= static_cast<double>(std::max<std::int64_t>(0, n - better - i)) / static_cast<double>(n - i);
  }
  return chance;
}

// P(j of c drawn without replacement are of the `kind` among `all`).
double hypergeometric(std::int64_t all, std::int64_t kind, std::int64_t c, std::int64_t j) {
  if (j < 0 || j > kind || c - j > all - kind) return 0;
  double chance = 1;
  // C(kind, j) C(all - kind, c - j) / C(all, c), factor by factor.
  for (std::int64_t i = 0; i < j; i++) {
    chance *= static_cast<double>((kind - i) * (c - i)) / static_cast<double>((i + 1) * (all - i));
  }
  for (std::int64_t i = 0; i < c - j; i++) {
    chance *= static_cast<double>(all - kind - i) / static_cast<double>(all - j - i);
  }
  return chance;
}

}  // namespace

Standing standingOf(const ScoredRow& row, const Strata& strata, const ColumnsBySignature& columns) {
  const ScoredPrompt& own = row.prompts[0];
  const std::int32_t ownFirst = strata.first(own.signature);
  Standing standing{0, 0};
  for (int h = 0; h < strata.strata(row.own); h++) standing.unseen += strata.stratum(row.own, h).columns;
  for (std::int64_t i = 1; i <= row.negatives; i++) {
    const auto [signature, h, score] = row.prompts[i];
    const std::int64_t count = strata.count(signature);
    standing.unseen -= count;
    if (score > own.score) standing.ahead += count;
    if (score != own.score) continue;
    const std::int32_t first = strata.first(signature);
    const std::int32_t* const alike = columns.begin(&first);
    standing.ahead += std::lower_bound(alike, alike + count, ownFirst) - alike;
  }
  return standing;
}

double bestOfCandidates(const ScoredRow& row, const Strata& strata, std::int64_t candidates) {
  constexpr double kTooFew = std::numeric_limits<double>::quiet_NaN();
  const ScoredPrompt& own = row.prompts[0];
  const int kinds = strata.strata(row.own);
  std::int64_t all = 0, better[2] = {0, 0};
  for (int h = 0; h < kinds; h++) all += strata.stratum(row.own, h).size;
  for (std::int64_t i = 1; i <= row.negatives; i++) {
    const auto [signature, h, score] = row.prompts[i];
    const bool isTied = score == own.score && strata.first(signature) < strata.first(own.signature);
    if (score > own.score || isTied) better[h]++;
  }
  const std::int64_t others = candidates - 1;
  if (kinds == 0 || all < others) return kTooFew;
  if (kinds == 1) return others > row.drawn[0] ? kTooFew : noneBetter(row.drawn[0], better[0], others);
  double value = 0;
  for (std::int64_t j = 0; j <= others; j++) {  // so many of the first kind
    const double weight = hypergeometric(all, strata.stratum(row.own, 0).size, others, j);
    if (weight == 0) continue;
    if (j > row.drawn[0] || others - j > row.drawn[1]) return kTooFew;
    value += weight * noneBetter(row.drawn[0], better[0], j) * noneBetter(row.drawn[1], better[1], others - j);
  }
  return std::min(1.0, value);
}

}  // namespace collapsar
