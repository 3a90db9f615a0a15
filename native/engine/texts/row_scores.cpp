// S_rj = sum over features f of c_r(f) ln(q_j(f)/3 + d_j(f)/3 + b(f)/3). A feature that prompt j lacks costs
// ln(b(f)/3) whatever j is, so
//
//   S_rj = sum c_r(f) ln(b(f)/3)  +  sum over the features that j has of c_r(f) ln(1 + (q_j(f) + d_j(f)) / b(f)).
//
// The first sum, the same for all prompts, only says how near two scores must be to count as equal. The second is kept
// as a product of its factors, whose logarithm is taken before it could overflow: a multiplication for each row,
// feature and prompt. Each row multiplies in the order of partitions and, in them, of n-grams, whichever thread does
// it.
#include "row_scores.h"

#include <algorithm>
#include <cmath>

#include "engine/deterministic_math.h"
#include "engine/isa.h"
#include "engine/vector_width.h"
#include "feature_lists.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COLLAPSAR_FMA __attribute__((target("avx2,fma")))
#ifdef __clang__
#define COLLAPSAR_FMA512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"), min_vector_width(512)))
#else
#define COLLAPSAR_FMA512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#endif
#endif

namespace collapsar {

namespace {

constexpr int kMostExponent = 1000;                    // of a product before its logarithm is taken
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr std::int64_t kBlockBytes = 1 << 21;          // scores that one thread makes at a time
constexpr std::int64_t kLane = 8;                      // doubles of the widest vector
constexpr std::int64_t kOneBits = 0x3ff0000000000000;  // of 1.0
constexpr std::uint32_t kMostPower =
    16;  // of a factor; its logarithm is multiplied beyond: 16 of 2^40 are below 2^1000

std::int64_t textOf(const UsedRows& rows, std::int64_t row) { return rows.promptsKnown ? row + rows.prompt[row] : row; }

// The least e with value < 2^e, for a value of 1 or more.
inline __attribute__((always_inline)) int exponentOf(double value) {
  return static_cast<int>(bitsOf(value) >> 52) - 1022;
}

// 1 / the features that a prompt is trained with, and 1 / all features.
struct Shares {
  std::vector<double> trained;    // [kHalf + 1, P]: rows of the other folds, of even places
  std::vector<double> text;       // [P]: the prompt's text; 0 for an empty one
  double all = 0;                 // features of all used rows
  int exponents[kHalf + 1] = {};  // factors are below 2^this where prompts are not known: q / b <= all / trained

  Shares(const UsedRows& rows, const TextTable& texts) {
    const auto prompts = static_cast<std::size_t>(rows.prompts);
    std::vector<double> counts((kHalf + 1) * prompts), total(prompts);  // of what is not trained
    text.resize(prompts);
    for (std::size_t at = 0; at < texts.entries.size(); at++) {
      const auto count = static_cast<double>(texts.entries[at]);
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
      double most = 0;
      for (std::size_t j = 0; j < prompts; j++) {
        const std::size_t at = static_cast<std::size_t>(fold) * prompts + j;
        const double rest = total[j] - counts[at];
        trained[at] = rest > 0 ? 1 / rest : 0;  // by prompts there is no other fold
        most = std::max(most, trained[at]);
      }
      exponents[fold] = exponentOf(1.0 + most * all);
    }
  }
};

// Some of the scores, of rows under every prompt, as they grow.
class ScoreBlock {
 public:
  // Scores [begin, end) of the table.
  ScoreBlock(std::int64_t begin, std::int64_t end, std::int64_t prompts)
      : begin_(begin),
        end_(end),
        prompts_(prompts),
        products_(static_cast<std::size_t>((end - begin) * prompts), 1.0),
        sums_(products_.size()),
        exponents_(static_cast<std::size_t>(end - begin)) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  bool has(std::int64_t score) const { return score >= begin_ && score < end_; }

  // [P]: to be multiplied with factors below 2^exponent.
  inline __attribute__((always_inline)) double* products(std::int64_t score, int exponent) {
    int& reached = exponents_[score - begin_];
    if (reached + exponent > kMostExponent) flush(score);
    reached += exponent;
    return products_.data() + (score - begin_) * prompts_;
  }

  // [P]: logarithms of factors that are no part of the products.
  double* sums(std::int64_t score) { return sums_.data() + (score - begin_) * prompts_; }

  // [P]: complete once all features have been multiplied.
  inline __attribute__((always_inline)) const double* finish(std::int64_t score) {
    double *const products = products_.data() + (score - begin_) * prompts_;
    double *const sums = sums_.data() + (score - begin_) * prompts_;
    for (std::int64_t j = 0; j < prompts_; j++) sums[j] += deterministicLog(products[j]);
    return sums;
  }

 private:
  // Moves the products' exponents into the sums.
  inline __attribute__((always_inline)) void flush(std::int64_t score) {
    double *const products = products_.data() + (score - begin_) * prompts_;
    double *const sums = sums_.data() + (score - begin_) * prompts_;
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < prompts_; j++) {
      const std::uint64_t bits = bitsOf(products[j]);
      // The exponent's bits as a double: in the last places of 2^52.
      const double exponent = fromBits(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
      sums[j] += exponent * kLn2;
      products[j] = fromBits((bits & 0x000fffffffffffffu) | kOneBits);
    }
    exponents_[score - begin_] = 0;
  }

  std::int64_t begin_, end_, prompts_;
  std::vector<double> products_, sums_;  // [scores, P]
  std::vector<int> exponents_;           // [scores]: the products are below 2^this
};

struct Work {
  const UsedRows& rows;
  const TextTable& texts;
  const FeatureLists& lists;
  const Shares& shares;
  bool splits;  // the half split has scores of its own
  RowScores& out;
  const std::vector<std::int64_t>& testedAt;  // [R]: -1 where a row is not tested
};

// Room for one feature.
struct Scratch {
  explicit Scratch(std::int64_t prompts)
      : trained(static_cast<std::size_t>((kHalf + 1) * (prompts + kLane))),
        inText(static_cast<std::size_t>(prompts)),
        powers(kMostPower * inText.size()) {}

  std::vector<double> trained;  // in the rows that each holder or prompt is trained with
  std::vector<double> inText;   // [P]: of each holder or prompt, the share of its text
  std::vector<double> powers;   // [kMostPower, P]: factors of each holder or prompt, to the power of 1, 2, ...
};

// The power of two that all factors are below; 0 if all are 1.
inline __attribute__((always_inline)) int exponentOfAll(const double* factors, std::int64_t count) {
  std::int64_t most = kOneBits;  // doubles from 1 on are ordered as their bits are
  for (std::int64_t i = 0; i < count; i++) {
    const auto bits = static_cast<std::int64_t>(bitsOf(factors[i]));
    most = bits > most ? bits : most;
  }
  return most == kOneBits ? 0 : exponentOf(fromBits(static_cast<std::uint64_t>(most)));
}

// b(f) as the factors take it: by prompts q is b, so that the two thirds of b stand together.
inline __attribute__((always_inline)) double scaleOf(const Work& work, const Feature& feature) {
  return work.shares.all / feature.total / (work.rows.byPrompts ? 2.0 : 1.0);
}

// Multiplies the block's scores of rows that have the feature with 1 + (q + d) / b for every prompt, which is 1 for
// those that lack the feature. Fold by fold: its rows share their factors.
template <bool known>
inline __attribute__((always_inline)) void addToAll(const Work& work, const Feature& feature, const Holder* holders,
                                                    const std::uint32_t* inText, const Count* counts, Scratch& scratch,
                                                    ScoreBlock& scores) {
  const std::int64_t prompts = work.rows.prompts, held = feature.holders;
  const double scale = scaleOf(work, feature);
  double *const trained = scratch.trained.data(), *const texts = scratch.inText.data();
  double* const factors = scratch.powers.data();
  if (held < prompts) {
    std::fill_n(trained, prompts, 0.0);
    if (known) std::fill_n(texts, prompts, 0.0);
  }
  for (std::int64_t i = 0; i < held; i++) {
    const std::uint32_t j = holders[i].prompt;
    trained[j] = holders[i].total;
    if (known) texts[j] = inText[i] * work.shares.text[j];
  }
  for (int fold = 0; fold <= kHalf; fold++) {
    const bool half = fold == kHalf;
    const Count* const begin = counts + (half || fold == 0 ? 0 : feature.ends[fold - 1]);
    const Count* const end = counts + (half ? feature.counts : feature.ends[fold]);
    const auto scoreOf = [&](const Count& of) -> std::int64_t { return half ? of.oddScore : of.score; };
    const Count* present = begin;
    while (present < end && !scores.has(scoreOf(*present))) present++;
    if (present == end) continue;

    // Trained with all but the rows of the fold, or of odd places.
    const auto tested = [&](const Count& of) { return half && of.oddScore == TextTable::kNoScore ? 0 : of.count; };
    for (const Count* at = begin; at < end; at++) trained[holders[at->holder].prompt] -= tested(*at);
    const double* const inverse = work.shares.trained.data() + fold * prompts;
    COLLAPSAR_NO_OVERLAP
    for (std::int64_t j = 0; j < prompts; j++) {
      const double share = trained[j] * inverse[j];
      factors[j] = 1.0 + (known ? share + texts[j] : share) * scale;
    }
    for (const Count* at = begin; at < end; at++) trained[holders[at->holder].prompt] += tested(*at);

    const int exponent = exponentOfAll(factors, prompts);
    if (exponent == 0) continue;
    std::uint32_t powers = 1;
    for (const Count* of = present; of < end; of++) {
      const std::int64_t score = scoreOf(*of);
      if (!scores.has(score)) continue;
      if (of->count > kMostPower) {
        double* const sums = scores.sums(score);
        for (std::int64_t j = 0; j < prompts; j++) sums[j] += of->count * deterministicLog(factors[j]);
        continue;
      }
      for (; powers < of->count; powers++) {
        const double* const before = factors + (powers - 1) * prompts;
        double* const power = factors + powers * prompts;
        COLLAPSAR_NO_OVERLAP
        for (std::int64_t j = 0; j < prompts; j++) power[j] = before[j] * factors[j];
      }
      const double* const power = factors + (of->count - 1) * prompts;
      double* const products = scores.products(score, exponent * static_cast<int>(of->count));
      COLLAPSAR_NO_OVERLAP
      for (std::int64_t j = 0; j < prompts; j++) products[j] *= power[j];
    }
  }
}

// The same for a feature that few prompts have, holder by holder: row by row, since few share a fold.
template <bool known>
inline __attribute__((always_inline)) void addToHolders(const Work& work, const Feature& feature, const Holder* holders,
                                                        const std::uint32_t* inText, const Count* counts,
                                                        Scratch& scratch, ScoreBlock& scores) {
  const std::int64_t prompts = work.rows.prompts, held = feature.holders, stride = (held + kLane - 1) / kLane * kLane;
  const Count* const end = counts + feature.counts;
  const double scale = scaleOf(work, feature);
  double *const totals = scratch.powers.data(), *const texts = scratch.inText.data();
  double *const allTrained = scratch.trained.data(), *const oddTrained = allTrained + kHalf * stride;
  const double* const inverses = work.shares.trained.data();
  for (std::int64_t i = 0; i < held; i++) {
    totals[i] = holders[i].total;
    if (known) texts[i] = inText[i] * work.shares.text[holders[i].prompt];
  }
  for (int fold = 0; fold <= kHalf; fold++) {
    double* const trained = allTrained + fold * stride;
    for (std::int64_t first = 0; first < stride; first += kLane) {
      for (std::int64_t i = first; i < first + kLane; i++) trained[i] = totals[i];
    }
  }
  for (const Count* at = counts; at < end; at++) {
    allTrained[at->fold * stride + at->holder] -= at->count;
    oddTrained[at->holder] -= at->oddScore == TextTable::kNoScore ? 0 : at->count;
  }
  const auto multiply = [&](std::int64_t score, std::uint32_t fold,
                            std::uint32_t count) __attribute__((always_inline)) {
    const double *const trained = allTrained + fold * stride, *const inverse = inverses + fold * prompts;
    const auto factorOf = [&](std::int64_t i) {
      const double share = trained[i] * inverse[holders[i].prompt];
      return 1.0 + (known ? share + texts[i] : share) * scale;
    };
    int exponent = work.shares.exponents[fold];
    if (known) {
      double* const factors = scratch.powers.data() + prompts;
      for (std::int64_t i = 0; i < held; i++) factors[i] = factorOf(i);
      exponent = exponentOfAll(factors, held);
    }
    if (exponent == 0) return;
    if (count == 1) {
      double* const products = scores.products(score, exponent);
      for (std::int64_t i = 0; i < held; i++) products[holders[i].prompt] *= factorOf(i);
    } else if (count <= kMostPower) {
      double* const products = scores.products(score, exponent * static_cast<int>(count));
      for (std::int64_t i = 0; i < held; i++) {
        const double factor = factorOf(i);
        double power = factor;
        for (std::uint32_t n = 1; n < count; n++) power *= factor;
        products[holders[i].prompt] *= power;
      }
    } else {
      double* const sums = scores.sums(score);
      for (std::int64_t i = 0; i < held; i++) sums[holders[i].prompt] += count * deterministicLog(factorOf(i));
    }
  };
  for (const Count* at = counts; at < end; at++) {
    if (scores.has(at->score)) multiply(at->score, at->fold, at->count);
    if (scores.has(at->oddScore)) multiply(at->oddScore, kHalf, at->count);
  }
}

template <bool known>
inline __attribute__((always_inline)) void addFeatures(const Work& work, const FeatureList& list, Scratch& scratch,
                                                       ScoreBlock& scores) {
  const Holder* holders = list.holders;
  const std::uint32_t* inText = list.inText;
  const Count* counts = list.counts;
  for (const Feature* at = list.features; at < list.features + list.featureCount; at++) {
    if (work.lists.isDense(*at)) {
      addToAll<known>(work, *at, holders, inText, counts, scratch, scores);
    } else {
      addToHolders<known>(work, *at, holders, inText, counts, scratch, scores);
    }
    if (known) inText += at->holders;
    holders += at->holders;
    counts += at->counts;
  }
}

inline __attribute__((always_inline)) void addList(const Work& work, const FeatureList& list, Scratch& scratch,
                                                   ScoreBlock& scores) {
  if (list.inText == nullptr) {
    addFeatures<false>(work, list, scratch, scores);
  } else {
    addFeatures<true>(work, list, scratch, scores);
  }
}

inline __attribute__((always_inline)) double meanOf(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; j++) sum += values[j];
  return sum / static_cast<double>(count);
}

// What the figures need of a row that was scored by its fold.
inline __attribute__((always_inline)) void reduceRow(const Work& work, std::int64_t row, const double* scores) {
  const UsedRows& rows = work.rows;
  RowScores& out = work.out;
  const std::int64_t prompts = rows.prompts, own = rows.prompt[row];
  const auto features = static_cast<double>(work.texts.entries[textOf(rows, row)]);
  // All features cost ln(b/3), where prompts are not known ln(b/2), by prompts ln(2b/3).
  const double part = rows.byPrompts ? 2.0 / 3.0 : rows.promptsKnown ? 1.0 / 3.0 : 0.5;
  const double base = work.lists.base(row) + features * (deterministicLog(part) - deterministicLog(work.shares.all));
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
  double temperature = 1;
  for (int t = 0; t < kTemperatures; t++, temperature *= 2) {
    double sum = 0;
    // Below e^-700 there is nothing that a sum of at least 1 would notice.
    const auto term = [&](double score) {
      const double fall = (score - most) / temperature;
      return fall < -700 ? 0.0 : deterministicExp(fall);
    };
    for (std::int64_t j = 0; j < prompts; j++) sum += term(scores[j]);
    out.ownShare[row * kTemperatures + t] = term(ownScore) / sum;
  }
}

// What the half split needs of a row that it tests.
inline __attribute__((always_inline)) void reduceTested(const Work& work, std::int64_t row, const double* scores) {
  const std::int64_t prompts = work.rows.prompts;
  double* const out = work.out.testedExcess.data() + work.testedAt[row] * prompts;
  const double mean = meanOf(scores, prompts);
  const auto features = static_cast<double>(work.texts.entries[textOf(work.rows, row)]);
  for (std::int64_t j = 0; j < prompts; j++) out[j] = (scores[j] - mean) / features;
}

inline __attribute__((always_inline)) void reduceRows(const Work& work, ScoreBlock& scores) {
  for (std::int64_t score = scores.begin(); score < scores.end(); score++) {
    const std::int64_t row = work.texts.scoredRow[score];
    const bool half = score >= work.texts.firstScore[kHalf];
    const double* const ofRow = scores.finish(score);
    if (!half) reduceRow(work, row, ofRow);
    if (half || (!work.splits && work.testedAt[row] >= 0)) reduceTested(work, row, ofRow);
  }
}

// Without the instruction each fma of deterministic_math.h is a call; the bits are the same.
#ifdef COLLAPSAR_FMA
COLLAPSAR_FMA void addListFma(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
  addList(work, list, scratch, scores);
}
COLLAPSAR_FMA void reduceRowsFma(const Work& work, ScoreBlock& scores) { reduceRows(work, scores); }
COLLAPSAR_FMA512 void addListAvx512(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
  addList(work, list, scratch, scores);
}
#endif

void addListWide(const Work& work, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
#ifdef COLLAPSAR_FMA
  if (activeIsa() == Isa::Avx512) return addListAvx512(work, list, scratch, scores);
  if (activeIsa() == Isa::Avx2) return addListFma(work, list, scratch, scores);
#endif
  addList(work, list, scratch, scores);
}

void reduceRowsWide(const Work& work, ScoreBlock& scores) {
#ifdef COLLAPSAR_FMA
  if (activeIsa() == Isa::Avx2 || activeIsa() == Isa::Avx512) return reduceRowsFma(work, scores);
#endif
  reduceRows(work, scores);
}

}  // namespace

Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  std::int64_t scoreBytes, bool keepsAll, RowScores& out, ThreadPool& pool, JobControl& control) {
  // With two folds the half split is the second fold's training, and by prompts nothing is trained.
  const bool splits = rows.folds > 2;
  const TextTable texts(rows, tokens, promptTokens, splits);
  PostingLists postings(texts.entries, pool.threads());
  const Outcome filled = postings.fill(pool, control, [&](std::int64_t text, std::uint64_t* hashes) {
    if (texts.row[text] >= 0) {
      const std::int64_t row = rows.row[texts.row[text]];
      hash.features(tokens.of(row), tokens.count(row), hashes);
    } else {
      const std::int64_t prompt = rows.promptText[texts.texts[text].prompt];
      hash.features(promptTokens->of(prompt), promptTokens->count(prompt), hashes);
    }
  });
  if (filled == Outcome::Cancelled) return filled;
  FeatureLists lists(rows, texts, postings, pool.threads());
  const Shares shares(rows, texts);

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
  const std::int64_t blockRows = std::clamp<std::int64_t>(kBlockBytes / (rows.prompts * 16), 1,
                                                          (all + pool.threads() - 1) / pool.threads());
  const std::int64_t blockCount = (all + blockRows - 1) / blockRows;
  const Work work{rows, texts, lists, shares, splits, out, testedAt};
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.threads()), Scratch(rows.prompts));
  // Scores of so many rows at a time as memory is allowed; the features are listed anew for each lot.
  const std::int64_t lot = std::max<std::int64_t>(pool.threads(), scoreBytes / (blockRows * rows.prompts * 16));
  for (std::int64_t begun = 0; begun < blockCount; begun += lot) {
    std::vector<ScoreBlock> blocks;
    for (std::int64_t block = begun; block < std::min(blockCount, begun + lot); block++) {
      blocks.emplace_back(block * blockRows, std::min(all, (block + 1) * blockRows), rows.prompts);
    }
    const auto lotSize = static_cast<std::int64_t>(blocks.size());
    for (std::int64_t batch = 0; batch < lists.batches(); batch++) {
      if (lists.list(batch, postings, begun == 0, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
      const Outcome scored = pool.run(lotSize, control, [&](std::int64_t block, int worker) {
        for (const FeatureList& list : lists.lists()) {
          if (control.cancelled.load(std::memory_order_relaxed)) return;
          addListWide(work, list, scratch[static_cast<std::size_t>(worker)], blocks[static_cast<std::size_t>(block)]);
        }
      });
      if (scored == Outcome::Cancelled) return scored;
    }
    const Outcome reduced = pool.run(lotSize, control, [&](std::int64_t block, int) {
      reduceRowsWide(work, blocks[static_cast<std::size_t>(block)]);
    });
    if (reduced == Outcome::Cancelled) return reduced;
  }
  return Outcome::Done;
}

}  // namespace collapsar
