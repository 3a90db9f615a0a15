// S_rj = sum over features f of c_r(f) ln(q_j(f)/3 + d_j(f)/3 + b(f)/3). A feature that prompt j lacks costs
// ln(b(f)/3) whatever j is, so
//
//   S_rj = sum c_r(f) ln(b(f)/3)  +  sum over the features that j has of c_r(f) ln(1 + (q_j(f) + d_j(f)) / b(f)).
//
// The first sum, the same for all prompts, only says how near two scores must be to count as equal. The second is kept
// as a product of its factors, whose logarithm is taken before it could overflow: a multiplication for each row,
// feature and prompt. Each row multiplies tokens, then pairs, in the order of partitions; in them dense features, then
// sparse ones, as they come in its text: whichever thread does it.
#include "row_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/deterministic_math.h"
#include "engine/isa.h"
#include "engine/simd/kernel_table.h"
#include "engine/vector_width.h"
#include "feature_lists.h"

namespace collapsar {

namespace {

constexpr std::int64_t kMostExponent = 1000;  // of a product before its logarithm is taken
static_assert(kMostExponent < std::numeric_limits<double>::max_exponent, "products are finite");
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr std::int64_t kBlockBytes = 1 << 21;          // scores that one thread makes at a time
constexpr std::int64_t kLane = 8;                      // doubles of the widest vector
constexpr std::int64_t kOneBits = 0x3ff0000000000000;  // of 1.0

typedef double Doubles2 __attribute__((vector_size(16)));
typedef double Doubles4 __attribute__((vector_size(32)));
typedef double Doubles8 __attribute__((vector_size(64)));

std::int64_t textOf(const UsedRows& rows, std::int64_t row) { return rows.promptsKnown ? row + rows.prompt[row] : row; }

// The least e with value < 2^e, for a value of 1 or more.
inline __attribute__((always_inline)) int exponentOf(double value) {
  return static_cast<int>(bitsOf(value) >> 52) - 1022;
}

// 1 / the features that a prompt is trained with, and 1 / all features.
struct Shares {
  std::int64_t stride;            // of prompts: whole vectors
  std::vector<double> trained;    // [kHalf + 1, stride]: rows of the other folds, of even places
  std::vector<double> text;       // [stride]: the prompt's text; 0 for an empty one
  double all = 0;                 // features of all used rows
  int exponents[kHalf + 1] = {};  // factors are below 2^this: q / b <= all / trained, and d / b <= all

  Shares(const UsedRows& rows, const TextTable& texts) : stride((rows.prompts + kLane - 1) / kLane * kLane) {
    const auto prompts = static_cast<std::size_t>(stride);
    std::vector<double> counts((kHalf + 1) * prompts), total(prompts);  // of what is not trained
    text.resize(prompts);
    for (std::size_t at = 0; at < texts.texts.size(); at++) {
      const auto count = static_cast<double>(NgramHash::featureCount(texts.tokens[at]));
      const TextTable::Text& of = texts.texts[at];
      const std::size_t j = of.prompt;
      if (of.fold == kPromptText) {
        text[j] = count > 0 ? 1 / count : 0;
        continue;
      }
      counts[of.fold * prompts + j] += count;
      if (of.oddScore != TextTable::kNoScore) counts[kHalf * prompts + j] += count;
      total[j] += count;
      all += count;
    }
    trained.resize(counts.size());
    for (int fold = 0; fold <= kHalf; fold++) {
      double largest = 0;
      for (std::size_t j = 0; j < prompts; j++) {
        const std::size_t at = static_cast<std::size_t>(fold) * prompts + j;
        const double rest = total[j] - counts[at];
        trained[at] = rest > 0 ? 1 / rest : 0;  // by prompts there is no other fold
        largest = std::max(largest, trained[at]);
      }
      exponents[fold] = exponentOf(1.0 + largest * all + (rows.promptsKnown ? all : 0));
    }
  }
};

// Some of the scores, of rows under every prompt, as they grow.
class ScoreBlock {
 public:
  // Scores [begin, end) of the table.
  ScoreBlock(std::int64_t begin, std::int64_t end, std::int64_t stride)
      : begin_(begin),
        end_(end),
        stride_(stride),
        products_(static_cast<std::size_t>((end - begin) * stride), 1.0),
        sums_(products_.size()),
        exponents_(static_cast<std::size_t>(end - begin)) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  bool has(std::int64_t score) const { return score >= begin_ && score < end_; }

  // [stride]: to be multiplied with factors below 2^exponent.
  inline __attribute__((always_inline)) double* products(std::int64_t score, std::int64_t exponent) {
    std::int64_t& reached = exponents_[score - begin_];
    if (reached + exponent > kMostExponent) flush(score);
    reached += exponent;
    return products_.data() + (score - begin_) * stride_;
  }

  // [stride]: complete once all features have been multiplied.
  const double* finish(std::int64_t score) {
    double* const products = products_.data() + (score - begin_) * stride_;
    double* const sums = sums_.data() + (score - begin_) * stride_;
    kernels().logarithms(products, stride_, products);
    for (std::int64_t j = 0; j < stride_; j++) sums[j] += products[j];
    return sums;
  }

 private:
  // Moves the products' exponents into the sums.
  inline __attribute__((always_inline)) void flush(std::int64_t score) {
    double* const products = products_.data() + (score - begin_) * stride_;
    double* const sums = sums_.data() + (score - begin_) * stride_;
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < stride_; j++) {
      const std::uint64_t bits = bitsOf(products[j]);
      // The exponent's bits as a double: in the last places of 2^52.
      const double exponent = fromBits(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
      sums[j] += exponent * kLn2;
      products[j] = fromBits((bits & 0x000fffffffffffffu) | kOneBits);
    }
    exponents_[score - begin_] = 0;
  }

  std::int64_t begin_, end_, stride_;
  std::vector<double> products_, sums_;  // [scores, stride]
  std::vector<std::int64_t> exponents_;  // [scores]: the products are below 2^this
};

struct Work {
  const UsedRows& rows;
  const TextTable& texts;
  const FeatureLists* features;  // of tokens, and of pairs
  const Shares& shares;
  bool splits;  // the half split has scores of its own
  RowScores& out;
  const std::vector<std::int64_t>& testedAt;  // [R]: -1 where a row is not tested
};

struct Scratch {
  UnsetArray<std::int32_t> trained;  // of each slot: count in the rows that its prompt is trained with
  UnsetArray<double> factors;        // of each slot: 1 + (q + d) / b
};

// Factors of the list's features, trained with all but the rows of the fold, or of odd places.
template <bool known>
inline __attribute__((always_inline)) void makeFactors(const Work& work, const FeatureList& list, int fold,
                                                       const RowCounts* rows, const RowCounts* rowsEnd,
                                                       Scratch& scratch) {
  std::int32_t* const trained = scratch.trained.get();
  double* const factors = scratch.factors.get();
  std::copy_n(list.totals, list.slots, trained);
  for (const RowCounts* row = rows; row < rowsEnd; row++) {
    const TextTable::Text& text = work.texts.texts[row->text];
    if (fold == kHalf && text.oddScore == TextTable::kNoScore) continue;
    for (std::uint32_t at = row->dense; at < row->denseEnd; at++) {
      trained[list.dense[at].firstSlot + text.prompt] -= static_cast<std::int32_t>(list.dense[at].count);
    }
    for (std::uint32_t at = row->sparse; at < row->sparseEnd; at++) {
      trained[list.sparse[at].slot] -= static_cast<std::int32_t>(list.sparse[at].count);
    }
  }
  const std::int64_t stride = work.shares.stride;
  const double *const inverse = work.shares.trained.data() + fold * stride, *const ofText = work.shares.text.data();
  for (std::int64_t first = stride; first < list.denseSlots; first += stride) {
    const std::int32_t* const ofFeature = trained + first;
    const std::int32_t* const inText = list.inText + (known ? first : 0);
    double* const out = factors + first;
    const double scale = list.scales[first];
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < stride; j++) {
      const double share = ofFeature[j] * inverse[j];
      out[j] = 1.0 + (known ? share + inText[j] * ofText[j] : share) * scale;
    }
  }
  COLLAPSAR_NO_OVERLAP
  for (std::int64_t slot = list.denseSlots; slot < list.slots; slot++) {
    const std::uint32_t j = list.prompts[slot];
    const double share = trained[slot] * inverse[j];
    factors[slot] = 1.0 + (known ? share + list.inText[slot] * ofText[j] : share) * list.scales[slot];
  }
}

// products *= the factors of the counts' features, each as often as it is counted. A few vectors at a time stay in
// registers.
template <typename Vector>
inline __attribute__((always_inline)) void multiplyDense(double* products, const double* factors,
                                                         const DenseCount* begin, const DenseCount* end,
                                                         std::int64_t stride) {
  constexpr std::int64_t kWidth = sizeof(Vector) / sizeof(double);
  const auto multiply = [&](std::int64_t first, auto number) __attribute__((always_inline)) {
    constexpr int kVectors = decltype(number)::value;
    Vector grown[kVectors];
    for (int i = 0; i < kVectors; i++) __builtin_memcpy(&grown[i], products + first + i * kWidth, sizeof(Vector));
    for (const DenseCount* at = begin; at < end; at++) {
      const double* const factor = factors + at->firstSlot + first;
      for (std::uint32_t n = at->count; n > 0; n--) {
        for (int i = 0; i < kVectors; i++) {
          Vector of;
          __builtin_memcpy(&of, factor + i * kWidth, sizeof(Vector));
          grown[i] *= of;
        }
      }
    }
    for (int i = 0; i < kVectors; i++) __builtin_memcpy(products + first + i * kWidth, &grown[i], sizeof(Vector));
  };
  std::int64_t first = 0;
  for (; first + 8 * kWidth <= stride; first += 8 * kWidth) multiply(first, std::integral_constant<int, 8>());
  for (; first < stride; first += kWidth) multiply(first, std::integral_constant<int, 1>());
}

// The same for features that few prompts have.
inline __attribute__((always_inline)) void multiplySparse(double* products, const double* factors,
                                                          const std::uint32_t* prompts, const SparseCount* begin,
                                                          const SparseCount* end) {
  for (const SparseCount* at = begin; at < end; at++) {
    for (std::uint32_t n = at->count; n > 0; n--) {
      for (std::uint32_t slot = at->firstSlot; slot < at->endSlot; slot++) products[prompts[slot]] *= factors[slot];
    }
  }
}

// multiply(products, begin, end) with as many counts at a time as the products have room for.
template <typename Counted, typename Multiply>
inline __attribute__((always_inline)) void addCounts(ScoreBlock& scores, std::int64_t score, std::int64_t exponent,
                                                     const Counted* begin, const Counted* end, std::int64_t total,
                                                     Multiply multiply) {
  if (total * exponent <= kMostExponent) return multiply(scores.products(score, total * exponent), begin, end);
  for (const Counted* at = begin; at < end;) {
    const Counted* const first = at;
    std::int64_t sum = 0;
    for (; at < end && (sum + at->count) * exponent <= kMostExponent; at++) sum += at->count;
    if (at > first) {
      multiply(scores.products(score, sum * exponent), first, at);
      continue;
    }
    Counted part = *at++;
    for (std::int64_t left = part.count; left > 0; left -= part.count) {
      part.count = static_cast<std::uint32_t>(std::min(left, kMostExponent / exponent));
      multiply(scores.products(score, part.count * exponent), &part, &part + 1);
    }
  }
}

template <bool known, typename Vector>
inline __attribute__((always_inline)) void addFeatures(const Work& work, const FeatureList& list, Scratch& scratch,
                                                       ScoreBlock& scores) {
  for (int fold = 0; fold <= kHalf; fold++) {
    const bool half = fold == kHalf;
    if (scores.begin() >= work.texts.firstScore[fold + 1] || scores.end() <= work.texts.firstScore[fold]) continue;
    const RowCounts* const begin = list.rows + list.firstRow[half ? 0 : fold];
    const RowCounts* const end = list.rows + list.firstRow[half ? kMostFolds : fold + 1];
    if (begin == end) continue;
    makeFactors<known>(work, list, fold, begin, end, scratch);
    const double* const factors = scratch.factors.get();
    const int exponent = work.shares.exponents[fold];
    for (const RowCounts* row = begin; row < end; row++) {
      const TextTable::Text& text = work.texts.texts[row->text];
      const std::int64_t score = half ? text.oddScore : text.score;
      if (!scores.has(score)) continue;
      addCounts(
          scores, score, exponent, list.dense + row->dense, list.dense + row->denseEnd, row->denseTotal,
          [&](double* products, const DenseCount* first, const DenseCount* last) __attribute__((always_inline)) {
            multiplyDense<Vector>(products, factors, first, last, work.shares.stride);
          });
      addCounts(
          scores, score, exponent, list.sparse + row->sparse, list.sparse + row->sparseEnd, row->sparseTotal,
          [&](double* products, const SparseCount* first, const SparseCount* last)
              __attribute__((always_inline)) { multiplySparse(products, factors, list.prompts, first, last); });
    }
  }
}

template <typename Vector>
inline __attribute__((always_inline)) void addList(const Work& work, const FeatureList& list, Scratch& scratch,
                                                   ScoreBlock& scores) {
  if (list.inText == nullptr) {
    addFeatures<false, Vector>(work, list, scratch, scores);
  } else {
    addFeatures<true, Vector>(work, list, scratch, scores);
  }
}

double meanOf(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; j++) sum += values[j];
  return sum / static_cast<double>(count);
}

// What the figures need of a row that was scored by its fold.
// terms: [kTemperatures, stride].
void reduceRow(const Work& work, std::int64_t row, const double* scores, double* terms) {
  const UsedRows& rows = work.rows;
  RowScores& out = work.out;
  const std::int64_t prompts = rows.prompts, own = rows.prompt[row];
  const auto features = static_cast<double>(NgramHash::featureCount(work.texts.tokens[textOf(rows, row)]));
  // All features cost ln(b/3), where prompts are not known ln(b/2), by prompts ln(2b/3).
  const double part = rows.byPrompts ? 2.0 / 3.0 : rows.promptsKnown ? 1.0 / 3.0 : 0.5;
  const double base = work.features[0].base(row) + work.features[1].base(row) +
                      features * (kernels().log(part) - kernels().log(work.shares.all));
  const double ownScore = scores[own], near = 1e-9 * (1 + std::fabs(base + ownScore));
  std::int32_t above = 0, equal = 0;
  double most = scores[0], others = 0;
  for (std::int64_t j = 0; j < prompts; j++) {
    const double more = scores[j] - ownScore;
    above += more > near;
    equal += std::fabs(more) <= near;
    most = scores[j] > most ? scores[j] : most;
    others += j == own ? 0 : scores[j];
  }
  if (!out.all.empty()) std::copy_n(scores, prompts, out.all.begin() + row * prompts);
  out.above[row] = above;
  out.equal[row] = equal;
  out.excess[row] = (ownScore - others / static_cast<double>(prompts - 1)) / features;
  const std::int64_t stride = work.shares.stride;
  double coolness = 1;  // 1 / temperature
  for (int t = 0; t < kTemperatures; t++, coolness /= 2) {
    for (std::int64_t j = 0; j < stride; j++) {
      const double fall = (scores[std::min(j, prompts - 1)] - most) * coolness;
      // Below e^-700 there is nothing that a sum of at least 1 would notice: e^-800 is 0.
      terms[t * stride + j] = fall < -700.0 ? -800.0 : fall;
    }
  }
  kernels().exponentials(terms, kTemperatures * stride, terms);
  double sums[kTemperatures] = {};
  for (std::int64_t j = 0; j < prompts; j++) {
    for (int t = 0; t < kTemperatures; t++) sums[t] += terms[t * stride + j];
  }
  for (int t = 0; t < kTemperatures; t++) {
    out.ownShare[row * kTemperatures + t] = terms[t * stride + own] / sums[t];
  }
}

// What the half split needs of a row that it tests.
void reduceTested(const Work& work, std::int64_t row, const double* scores) {
  const std::int64_t prompts = work.rows.prompts;
  double* const out = work.out.testedExcess.data() + work.testedAt[row] * prompts;
  const double mean = meanOf(scores, prompts);
  const auto features = static_cast<double>(NgramHash::featureCount(work.texts.tokens[textOf(work.rows, row)]));
  for (std::int64_t j = 0; j < prompts; j++) out[j] = (scores[j] - mean) / features;
}

void reduceRows(const Work& work, ScoreBlock& scores, double* terms) {
  for (std::int64_t score = scores.begin(); score < scores.end(); score++) {
    const std::int64_t row = work.texts.scoredRow[score];
    const bool half = score >= work.texts.firstScore[kHalf];
    const double* const ofRow = scores.finish(score);
    if (!half) reduceRow(work, row, ofRow, terms);
    if (half || (!work.splits && work.testedAt[row] >= 0)) reduceTested(work, row, ofRow);
  }
}

#ifdef COLLAPSAR_AVX2
COLLAPSAR_AVX2 void addListAvx2(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
  addList<Doubles4>(work, list, scratch, scores);
}
COLLAPSAR_AVX512 void addListAvx512(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
  addList<Doubles8>(work, list, scratch, scores);
}
#endif

void addListWide(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
#ifdef COLLAPSAR_AVX2
  if (activeIsa() == Isa::Avx512) return addListAvx512(work, list, scratch, scores);
  if (activeIsa() == Isa::Avx2) return addListAvx2(work, list, scratch, scores);
#endif
  addList<Doubles2>(work, list, scratch, scores);
}

}  // namespace

Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  std::int64_t scoreBytes, bool keepsAll, RowScores& out, ThreadPool& pool, JobControl& control) {
  // With two folds the half split is the second fold's training, and by prompts nothing is trained.
  const bool splits = rows.folds > 2;
  const TextTable texts(rows, tokens, promptTokens, splits);
  const auto tokensOf = [&](std::int64_t text) {
    const TextTable::Text& of = texts.texts[text];
    return of.fold == kPromptText ? promptTokens->of(rows.promptText[of.prompt]) : tokens.of(rows.row[of.row]);
  };
  // Tokens, then pairs of neighbours.
  std::vector<std::int64_t> pairs;
  for (const std::int64_t count : texts.tokens) pairs.push_back(NgramHash::pairCount(count));
  PostingLists postings[] = {{texts.tokens, texts.owners(), PostingLists::Entries::Counted, pool.threads()},
                             {pairs, texts.owners(), PostingLists::Entries::Plain, pool.threads()}};
  std::vector<TokenCounter> counters(static_cast<std::size_t>(pool.threads()),
                                     TokenCounter(*std::max_element(texts.tokens.begin(), texts.tokens.end())));
  Outcome filled =
      postings[0].fill(pool, control, [&](std::int64_t text, int worker, std::uint64_t* hashes, std::uint32_t* counts) {
        return counters[static_cast<std::size_t>(worker)].count(hash, tokensOf(text), texts.tokens[text], hashes,
                                                                counts);
      });
  if (filled == Outcome::Cancelled) return filled;
  filled = postings[1].fill(pool, control, [&](std::int64_t text, int, std::uint64_t* hashes, std::uint32_t*) {
    hash.pairs(tokensOf(text), texts.tokens[text], hashes);
    return pairs[text];
  });
  if (filled == Outcome::Cancelled) return filled;
  const Shares shares(rows, texts);
  FeatureLists features[] = {{rows, texts, postings[0], shares.stride, pool.threads()},
                             {rows, texts, postings[1], shares.stride, pool.threads()}};

  out.ownShare.resize(static_cast<std::size_t>(rows.rows * kTemperatures));
  out.above.resize(static_cast<std::size_t>(rows.rows));
  out.equal.resize(static_cast<std::size_t>(rows.rows));
  out.excess.resize(static_cast<std::size_t>(rows.rows));
  if (keepsAll) out.all.resize(static_cast<std::size_t>(rows.rows * rows.prompts));
  std::vector<std::int64_t> testedAt(static_cast<std::size_t>(rows.rows), -1);
  for (const std::int64_t row : rows.atPosition) {
    if (!rows.byPrompts && rows.place(row) % 2 == 0) continue;
    testedAt[row] = static_cast<std::int64_t>(out.testedOwn.size());
    out.testedOwn.push_back(rows.prompt[row]);
  }
  out.testedExcess.resize(out.testedOwn.size() * static_cast<std::size_t>(rows.prompts));

  // A block's scores stay in a second-level cache, and there are blocks for all threads.
  const auto all = static_cast<std::int64_t>(texts.scoredRow.size());
  const std::int64_t blockRows =
      std::clamp<std::int64_t>(kBlockBytes / (shares.stride * 16), 1, (all + pool.threads() - 1) / pool.threads());
  const std::int64_t blockCount = (all + blockRows - 1) / blockRows;
  const Work work{rows, texts, features, shares, splits, out, testedAt};
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.threads()));
  std::int64_t slots = 0;  // that these have room for
  std::vector<std::vector<double>> terms(scratch.size(),
                                         std::vector<double>(static_cast<std::size_t>(kTemperatures * shares.stride)));
  // Scores of so many rows at a time as memory is allowed; the features are listed anew for each lot.
  const std::int64_t lot = std::max<std::int64_t>(pool.threads(), scoreBytes / (blockRows * shares.stride * 16));
  for (std::int64_t begun = 0; begun < blockCount; begun += lot) {
    std::vector<ScoreBlock> blocks;
    for (std::int64_t block = begun; block < std::min(blockCount, begun + lot); block++) {
      blocks.emplace_back(block * blockRows, std::min(all, (block + 1) * blockRows), shares.stride);
    }
    const auto lotSize = static_cast<std::int64_t>(blocks.size());
    for (int kind = 0; kind < 2; kind++) {
      FeatureLists& lists = features[kind];
      for (std::int64_t batch = 0; batch < lists.batches(); batch++) {
        if (lists.list(batch, postings[kind], begun == 0, pool, control) == Outcome::Cancelled) {
          return Outcome::Cancelled;
        }
        std::int64_t most = 0;
        for (const FeatureList& list : lists.lists()) most = std::max<std::int64_t>(most, list.slots);
        if (most > slots) {
          slots = most;
          for (Scratch& ofWorker : scratch) {
            ofWorker = {UnsetArray<std::int32_t>(static_cast<std::size_t>(slots)),
                        UnsetArray<double>(static_cast<std::size_t>(slots))};
          }
        }
        const Outcome scored = pool.run(lotSize, control, [&](std::int64_t block, int worker) {
          for (const FeatureList& list : lists.lists()) {
            if (control.cancelled.load(std::memory_order_relaxed)) return;
            addListWide(work, list, scratch[static_cast<std::size_t>(worker)], blocks[static_cast<std::size_t>(block)]);
          }
        });
        if (scored == Outcome::Cancelled) return scored;
      }
    }
    const Outcome reduced = pool.run(lotSize, control, [&](std::int64_t block, int worker) {
      reduceRows(work, blocks[static_cast<std::size_t>(block)], terms[static_cast<std::size_t>(worker)].data());
    });
    if (reduced == Outcome::Cancelled) return reduced;
  }
  out.repeatedPairs = postings[1].takeSieve();
  return Outcome::Done;
}

}  // namespace collapsar
