// Blocks of prompts are summed level by level; the logarithm of a product of sums stands for the sum of logarithms.
#include "prompt_subsets.h"

#include <algorithm>
#include <numbers>
#include <utility>

#include "engine/deterministic_math.h"
#include "engine/special_values.h"
#include "engine/vector_width.h"
#include "random.h"

namespace collapsar {

namespace {

// Eight orders average the error of the draws out; their tables should stay in a second-level cache.
constexpr std::int64_t kMostOrders = 8, kOrderEntries = 1 << 16;

// An own score further below the row's largest: blocks of neither may lie below the smallest double, or keep few of its
// bits. exp() gives 0 below -708, so what is lost above this is e^-68 of a sum.
constexpr double kLeastOwn = -640;

// ln(e^a + e^b) is the larger one where they are further apart: the rest is below its last bit.
constexpr double kNegligible = -40;

// Canonical lanes, as two vectors that any instruction set has or halves: the same bits on all.
constexpr std::int64_t kLanes = 8, kHalf = kLanes / 2;
typedef double Doubles4 __attribute__((vector_size(32)));
typedef std::uint64_t Words4 __attribute__((vector_size(32)));
constexpr std::uint64_t kExponentOfOne = 0x3ff;
constexpr std::int64_t kFactors = 1000;  // each below 2: their product is below the largest double

std::int64_t padded(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

double logAdd(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  if (high == -kInfinity) return high;
  const double apart = low - high;
  return apart < kNegligible ? high : high + deterministicLog(1 + deterministicExp(apart));
}

inline __attribute__((always_inline)) void load(const double* values, Doubles4& out) {
  __builtin_memcpy(&out, values, sizeof out);
}

// value -> its significand, in [1, 2); its biased exponent is added to `exponents`.
inline __attribute__((always_inline)) void takeExponent(Doubles4& value, Words4& exponents) {
  Words4 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  exponents += bits >> 52;
  bits = (bits & kSignificandBits) | (kExponentOfOne << 52);
  __builtin_memcpy(&value, &bits, sizeof bits);
}

}  // namespace

// The product of own + values[i], all of which are normal doubles: its logarithm is the sum of theirs. values are read
// up to padded(count), and set so that the surplus multiplies by 1.
inline __attribute__((always_inline)) void SubsetValues::multiply(double own, double* values, std::int64_t count,
                                                                  int size) {
  const std::int64_t end = padded(count);
  for (std::int64_t i = count; i < end; i++) values[i] = 1 - own;
  Doubles4 product0 = {1, 1, 1, 1}, product1 = product0;
  Words4 exponents0 = {}, exponents1 = {};
  std::int64_t bias = 0;
  for (std::int64_t begin = 0; begin < end; begin += kFactors * kLanes) {
    const std::int64_t stop = std::min(end, begin + kFactors * kLanes);
    for (std::int64_t i = begin; i < stop; i += kLanes) {
      Doubles4 factor0, factor1;
      load(values + i, factor0);
      load(values + i + kHalf, factor1);
      factor0 += own;
      factor1 += own;
      takeExponent(factor0, exponents0);
      takeExponent(factor1, exponents1);
      product0 *= factor0;
      product1 *= factor1;
    }
    takeExponent(product0, exponents0);
    takeExponent(product1, exponents1);
    bias += stop - begin + kLanes;
  }
  product0 *= product1;
  exponents0 += exponents1;
  product_[size] = (product0[0] * product0[1]) * (product0[2] * product0[3]);
  const std::uint64_t exponents = (exponents0[0] + exponents0[1]) + (exponents0[2] + exponents0[3]);
  power_[size] =
      static_cast<double>(static_cast<std::int64_t>(exponents) - bias * static_cast<std::int64_t>(kExponentOfOne));
}

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
  for (std::int64_t blocks = distinct / 2; blocks > 0; blocks /= 2) {
    draws.push_back(static_cast<double>(sizes == 0 ? distinct - 1 : blocks));
    sizes++;
    logSize.push_back(columns.logOthers[std::int64_t{1} << sizes]);
  }
  orders = std::clamp<std::int64_t>(kOrderEntries / std::max<std::int64_t>(1, distinct), 1,
                                    std::min<std::int64_t>(kMostOrders, std::max<std::int64_t>(1, distinct)));
  columnAt.resize(static_cast<std::size_t>(orders * distinct));
  orderOf.resize(static_cast<std::size_t>(distinct));
  placeOf.resize(static_cast<std::size_t>(distinct));
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
      if (promptAt[i] % orders != order) continue;
      orderOf[promptAt[i]] = static_cast<std::int32_t>(order);
      placeOf[promptAt[i]] = static_cast<std::int32_t>(i);
    }
  }
}

SubsetValues::SubsetValues(const InferenceInput& input, const PromptSubsets& subsets)
    : margin(kNaN),
      at(static_cast<std::size_t>(subsets.sizes), kNaN),
      input_(input),
      subsets_(subsets),
      kernels_(kernels()),
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

  const std::int64_t distinct = subsets_.distinct;
  const std::int32_t* const columnAt = subsets_.columnAt.data() + subsets_.orderOf[prompt] * distinct;
  std::int64_t place = subsets_.placeOf[prompt];
  const double excess = scores[own] - top;
  if (excess < kLeastOwn) return computeInLogs(scores, own, columnAt, place);

  const double ownTerm = terms[own];
  double* const sum = sum_.data();
  double* const rest = rest_.data();
  for (std::int64_t i = 0; i < distinct; i++) sum[i] = terms[columnAt[i]];
  sum[place] = 1 - ownTerm;  // adds ln 1: a row's own prompt is no pair
  multiply(ownTerm, sum, distinct, 0);
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
    if (i > 0) multiply(ownTerm, rest, blocks, i);
  }
  kernels_.logarithms(product_, subsets_.sizes, log_);
  for (int i = 0; i < subsets_.sizes; i++) {
    at[i] = subsets_.logSize[i] + excess - (power_[i] * std::numbers::ln2 + log_[i]) / subsets_.draws[i];
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
    Doubles4 sum0 = {}, sum1 = {};
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      Doubles4 values0, values1;
      load(scores + i, values0);
      load(scores + i + kHalf, values1);
      sum0 += ownScore - values0;  // that of the own prompt is 0
      sum1 += ownScore - values1;
    }
    __builtin_memcpy(lanes, &sum0, sizeof sum0);
    __builtin_memcpy(lanes + kHalf, &sum1, sizeof sum1);
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
  at[0] = subsets_.logSize[0] - pairs / subsets_.draws[0];
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
    if (i > 0) at[i] = subsets_.logSize[i] - total / subsets_.draws[i];
  }
}

}  // namespace collapsar
