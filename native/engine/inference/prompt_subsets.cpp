// Blocks of prompts are summed level by level; the logarithm of a product of sums stands for the sum of logarithms.
#include "prompt_subsets.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/deterministic_math.h"
#include "engine/vector_width.h"
#include "random.h"

namespace collapsar {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Eight orders average the error of the draws out; their tables should stay in a second-level cache.
constexpr std::int64_t kMostOrders = 8, kOrderEntries = 1 << 16;

// An own score further below the row's largest: blocks of neither may lie below the smallest double, or keep few of its
// bits. exp() gives 0 below -708, so what is lost above this is e^-68 of a sum.
constexpr double kLeastOwn = -640;

// ln(e^a + e^b) is the larger one where they are further apart: the rest is below its last bit.
constexpr double kNegligible = -40;

// Canonical lanes: the same bits with vectors of any width.
constexpr std::int64_t kLanes = 8;
typedef double Doubles8 __attribute__((vector_size(64)));
typedef std::uint64_t Words8 __attribute__((vector_size(64)));
constexpr std::uint64_t kExponentOfOne = 0x3ff;
constexpr std::int64_t kFactors = 1000;  // each below 2: their product is below the largest double

std::int64_t padded(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

double logAdd(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  if (high == -kInfinity) return high;
  const double apart = low - high;
  return apart < kNegligible ? high : high + deterministicLog(1 + deterministicExp(apart));
}

// sum of ln(own + values[i]), all of which are normal doubles: ln of their product, whose exponent is kept apart.
// values are read up to padded(count), and set so that the surplus adds ln 1.
inline __attribute__((always_inline)) double sumOfLogs(double own, double* values, std::int64_t count) {
  const std::int64_t end = padded(count);
  for (std::int64_t i = count; i < end; i++) values[i] = 1 - own;
  Doubles8 product;
  Words8 exponents;
  for (int lane = 0; lane < kLanes; lane++) product[lane] = 1, exponents[lane] = 0;
  const auto settle = [&] {
    Words8 bits;
    __builtin_memcpy(&bits, &product, sizeof bits);
    exponents += (bits >> 52) - kExponentOfOne;
    bits = (bits & kSignificandBits) | (kExponentOfOne << 52);
    __builtin_memcpy(&product, &bits, sizeof bits);
  };
  for (std::int64_t begin = 0; begin < end; begin += kFactors * kLanes) {
    const std::int64_t stop = std::min(end, begin + kFactors * kLanes);
    for (std::int64_t i = begin; i < stop; i += kLanes) {
      Doubles8 factor;
      __builtin_memcpy(&factor, values + i, sizeof factor);
      factor += own;
      Words8 bits;
      __builtin_memcpy(&bits, &factor, sizeof bits);
      exponents += (bits >> 52) - kExponentOfOne;
      bits = (bits & kSignificandBits) | (kExponentOfOne << 52);
      __builtin_memcpy(&factor, &bits, sizeof factor);
      product *= factor;
    }
    settle();
  }
  double all = 1;
  std::int64_t exponent = 0;
  for (int lane = 0; lane < kLanes; lane++) {
    all *= product[lane];
    exponent += static_cast<std::int64_t>(exponents[lane]);
  }
  const auto power = static_cast<double>(exponent);
  return __builtin_fma(power, kLn2High, __builtin_fma(power, kLn2Low, deterministicLog(all)));
}

}  // namespace

PromptSubsets::PromptSubsets(const StepColumns& columns, std::uint64_t seed)
    : distinct(columns.distinct), promptOf(columns.signature.size()) {
  std::vector<std::int32_t> known(columns.signature.size(), -1);  // by signature
  for (std::size_t p = 0; p < promptOf.size(); p++) {
    std::int32_t& prompt = known[static_cast<std::size_t>(columns.signature[p])];
    if (prompt < 0) {
      prompt = static_cast<std::int32_t>(representative.size());
      representative.push_back(static_cast<std::int32_t>(p));
    }
    promptOf[p] = prompt;
  }
  while (std::int64_t{2} << sizes <= distinct) sizes++;
  orders = std::clamp<std::int64_t>(kOrderEntries / std::max<std::int64_t>(1, distinct), 1,
                                    std::min<std::int64_t>(kMostOrders, std::max<std::int64_t>(1, distinct)));
  columnAt.resize(static_cast<std::size_t>(orders * distinct));
  placeOf.resize(columnAt.size());
  std::vector<std::int32_t> promptAt(static_cast<std::size_t>(distinct));
  for (std::int64_t order = 0; order < orders; order++) {
    for (std::int64_t i = 0; i < distinct; i++) promptAt[i] = static_cast<std::int32_t>(i);
    // Streams from the last one downwards: those from the first are the label permutations'.
    CounterRandom random(seed, ~static_cast<std::uint64_t>(order));
    for (std::int64_t i = distinct - 1; i > 0; i--) {
      std::swap(promptAt[i], promptAt[random.below(static_cast<std::uint32_t>(i + 1))]);
    }
    for (std::int64_t i = 0; i < distinct; i++) {
      columnAt[order * distinct + i] = representative[promptAt[i]];
      placeOf[order * distinct + promptAt[i]] = static_cast<std::int32_t>(i);
    }
  }
}

SubsetValues::SubsetValues(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets)
    : margin(kNaN),
      at(static_cast<std::size_t>(subsets.sizes), kNaN),
      input_(input),
      columns_(columns),
      subsets_(subsets),
      sum_(static_cast<std::size_t>(padded(subsets.distinct))),
      rest_(static_cast<std::size_t>(padded(subsets.distinct / 2))) {}

void SubsetValues::compute(std::int64_t r, const double* terms, double top) {
  if (subsets_.sizes == 0) return;
#if defined(__x86_64__) && defined(__GNUC__)
  switch (vectorBytes()) {
    case 64:
      return computeAvx512(r, terms, top);
    case 32:
      return computeAvx2(r, terms, top);
    default:
      return computeBody(r, terms, top);
  }
#else
  computeBody(r, terms, top);
#endif
}

#if defined(__x86_64__) && defined(__GNUC__)
COLLAPSAR_AVX2 void SubsetValues::computeAvx2(std::int64_t r, const double* terms, double top) {
  computeBody(r, terms, top);
}
COLLAPSAR_AVX512 void SubsetValues::computeAvx512(std::int64_t r, const double* terms, double top) {
  computeBody(r, terms, top);
}
#endif

inline __attribute__((always_inline)) void SubsetValues::computeBody(std::int64_t r, const double* terms, double top) {
  const std::int32_t own = input_.labels.own[r], prompt = subsets_.promptOf[own];
  const double* const scores = input_.scores + r * input_.columns;
  margin = marginOf(scores, own);

  const std::int64_t distinct = subsets_.distinct, order = prompt % subsets_.orders;
  const std::int32_t* const columnAt = subsets_.columnAt.data() + order * distinct;
  std::int64_t place = subsets_.placeOf[order * distinct + prompt];
  const double excess = scores[own] - top;
  if (excess < kLeastOwn) return computeInLogs(scores, own, columnAt, place);

  const double ownTerm = terms[own];
  double* const sum = sum_.data();
  double* const rest = rest_.data();
  for (std::int64_t i = 0; i < distinct; i++) sum[i] = terms[columnAt[i]];
  sum[place] = 1 - ownTerm;  // adds ln 1: a row's own prompt is no pair
  at[0] = columns_.logOthers[2] + excess - sumOfLogs(ownTerm, sum, distinct) / static_cast<double>(distinct - 1);
  sum[place] = ownTerm;

  std::int64_t blocks = distinct;
  for (int i = 0; i < subsets_.sizes; i++) {
    blocks /= 2;
    if (i == 0) {
      COLLAPSAR_NO_OVERLAP
      for (std::int64_t b = 0; b < blocks; b++) rest[b] = sum[b + blocks];
    } else {
      COLLAPSAR_NO_OVERLAP
      for (std::int64_t b = 0; b < blocks; b++) rest[b] += sum[b + blocks];
    }
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t b = 0; b < blocks; b++) sum[b] += sum[b + blocks];
    if (place >= blocks) place -= blocks;
    // From here on it is in none: its block was left over, being one too many.
    if (place >= blocks) place = distinct;
    // The own prompt is of its block's sum already.
    if (place < blocks) rest[place] = sum[place] - ownTerm;
    if (i == 0) continue;
    at[i] = columns_.logOthers[std::int64_t{2} << i] + excess -
            sumOfLogs(ownTerm, rest, blocks) / static_cast<double>(blocks);
  }
}

inline __attribute__((always_inline)) double SubsetValues::marginOf(const double* scores, std::int32_t own) const {
  const std::int64_t distinct = subsets_.distinct, whole = distinct / kLanes * kLanes;
  const std::int32_t* const representative = subsets_.representative.data();
  const std::int32_t prompt = subsets_.promptOf[own];
  const double ownScore = scores[own];
  double lanes[kLanes] = {};
  const auto add = [&](std::int64_t i, const double* values, const auto& columnOf) {
    // The own prompt's is left out below by a 0, since another column's score may stand for it.
    const std::int64_t last = std::min(kLanes, distinct - i);
    for (std::int64_t lane = 0; lane < last; lane++) {
      lanes[lane] += i + lane == prompt ? 0.0 : ownScore - values[columnOf(i + lane)];
    }
  };
  if (distinct == input_.columns) {
    Doubles8 sums{};
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      Doubles8 values;
      __builtin_memcpy(&values, scores + i, sizeof values);
      values = ownScore - values;
      sums += values;  // that of the own prompt is 0
    }
    __builtin_memcpy(lanes, &sums, sizeof sums);
    if (whole < distinct) add(whole, scores, [](std::int64_t i) { return i; });
  } else {
    for (std::int64_t i = 0; i < distinct; i += kLanes) {
      add(i, scores, [representative](std::int64_t at) { return representative[at]; });
    }
  }
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total / static_cast<double>(distinct - 1);
}

// The same where terms are too small for doubles: relative to the own score, in logarithms.
void SubsetValues::computeInLogs(const double* scores, std::int32_t own, const std::int32_t* columnAt,
                                 std::int64_t place) {
  const std::int64_t distinct = subsets_.distinct;
  for (std::int64_t i = 0; i < distinct; i++) sum_[i] = scores[columnAt[i]] - scores[own];
  sum_[place] = 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < distinct; i++) pairs += i == place ? 0.0 : logAdd(0, sum_[i]);
  at[0] = columns_.logOthers[2] - pairs / static_cast<double>(distinct - 1);
  std::fill(rest_.begin(), rest_.end(), -kInfinity);
  std::int64_t blocks = distinct;
  for (int i = 0; i < subsets_.sizes; i++) {
    blocks /= 2;
    if (place >= blocks) place -= blocks;
    if (place >= blocks) place = distinct;
    double total = 0;
    for (std::int64_t b = 0; b < blocks; b++) {
      rest_[b] = logAdd(rest_[b], sum_[b + blocks]);
      sum_[b] = logAdd(sum_[b], sum_[b + blocks]);
      total += b == place ? sum_[b] : logAdd(0, rest_[b]);
    }
    if (i > 0) at[i] = columns_.logOthers[std::int64_t{2} << i] - total / static_cast<double>(blocks);
  }
}

}  // namespace collapsar
