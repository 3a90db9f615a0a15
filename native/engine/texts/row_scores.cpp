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
#endif

namespace collapsar {

namespace {

constexpr int kMostExponent = 1000;                    // of a product before its logarithm is taken
constexpr std::int64_t kBlockBytes = 1 << 20;          // scores that one thread makes at a time
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
  std::vector<double> others;  // [folds, P]: rows of the other folds
  std::vector<double> even;    // [P]: rows of even places
  std::vector<double> text;    // [P]: the prompt's text; 0 for an empty one
  double all = 0;              // features of all used rows

  Shares(const UsedRows& rows, const TextTable& texts) {
    const auto prompts = static_cast<std::size_t>(rows.prompts);
    std::vector<double> inFold(kMostFolds * prompts), total(prompts);
    even.resize(prompts);
    text.resize(prompts);
    others.resize(static_cast<std::size_t>(rows.folds) * prompts);
    for (std::size_t at = 0; at < texts.entries.size(); at++) {
      const auto count = static_cast<double>(texts.entries[at]);
      const TextTable::Text& of = texts.texts[at];
      const std::size_t j = of.prompt;
      if (of.fold == kPromptText) {
        text[j] = count > 0 ? 1 / count : 0;
        continue;
      }
      inFold[of.fold * prompts + j] += count;
      total[j] += count;
      if (of.inOdd == TextTable::kEven) even[j] += count;
      all += count;
    }
    for (std::size_t j = 0; j < prompts; j++) {
      even[j] = 1 / even[j];
      for (int fold = 0; fold < rows.folds; fold++) {
        const std::size_t at = static_cast<std::size_t>(fold) * prompts + j;
        const double rest = total[j] - inFold[at];
        others[at] = rest > 0 ? 1 / rest : 0;  // by prompts there is no other fold
      }
    }
  }
};

// Scores of some rows under every prompt, as they grow.
class ScoreBlock {
 public:
  ScoreBlock(std::int64_t rows, std::int64_t prompts)
      : prompts_(prompts),
        products_(static_cast<std::size_t>(rows * prompts), 1.0),
        sums_(products_.size()),
        exponents_(static_cast<std::size_t>(rows)) {}

  // Multiplies the row's products of the holders' prompts with the factors, whose product so far is below 2^exponent.
  // holders null: of prompts 0 to count.
  inline __attribute__((always_inline)) void multiply(std::int64_t row, const Holder* holders, const double* factors,
                                                      std::int64_t count, int exponent) {
    double* const products = products_.data() + row * prompts_;
    int& reached = exponents_[row];
    if (reached + exponent > kMostExponent) flush(row);
    reached += exponent;
    if (holders == nullptr) {
      COLLAPSAR_NO_OVERLAP
      for (std::int64_t i = 0; i < count; i++) products[i] *= factors[i];
    } else {
      for (std::int64_t i = 0; i < count; i++) products[holders[i].prompt] *= factors[i];
    }
  }

  // The same with factors[i]^times.
  inline __attribute__((always_inline)) void addLogs(std::int64_t row, const Holder* holders, const double* factors,
                                                     std::int64_t count, std::uint32_t times) {
    double* const sums = sums_.data() + row * prompts_;
    for (std::int64_t i = 0; i < count; i++) {
      sums[holders == nullptr ? i : holders[i].prompt] += times * deterministicLog(factors[i]);
    }
  }

  // [P]: complete once all features have been multiplied.
  inline __attribute__((always_inline)) const double* finish(std::int64_t row) {
    flush(row);
    return sums_.data() + row * prompts_;
  }

 private:
  inline __attribute__((always_inline)) void flush(std::int64_t row) {
    double *const products = products_.data() + row * prompts_, *const sums = sums_.data() + row * prompts_;
    for (std::int64_t j = 0; j < prompts_; j++) {
      sums[j] += deterministicLog(products[j]);
      products[j] = 1.0;
    }
    exponents_[row] = 0;
  }

  std::int64_t prompts_;
  std::vector<double> products_, sums_;  // [rows, P]
  std::vector<int> exponents_;           // [rows]: the row's products are below 2^this
};

// The rows [begin, end) of one fold, or of the odd places, and what they are scored with.
struct Pass {
  int fold;  // kHalf: rows of odd places
  std::int64_t begin, end;
  int exponent;  // factors are below 2^this where prompts are not known: q / b <= all features / those trained with
};
constexpr int kHalf = kMostFolds;

struct Work {
  const UsedRows& rows;
  const TextTable& texts;
  const FeatureLists& lists;
  const Shares& shares;
  bool splits;  // the half split is another training than a fold's
  RowScores& out;
  const std::vector<std::int64_t>& testedAt;  // [R]: -1 where a row is not tested
};

struct Scratch {
  explicit Scratch(std::int64_t prompts)
      : trained(static_cast<std::size_t>(prompts)), powers(kMostPower * trained.size()) {}

  std::vector<double> trained;  // [P]: of each holder
  std::vector<double> powers;   // [kMostPower, P]: factors of each holder or prompt, to the power of 1, 2, ...
};

// Multiplies the scores of the pass's rows that have the feature with 1 + (q + d) / b for each of its holders.
inline __attribute__((always_inline)) void addFeature(const Work& work, const Pass& pass, const Feature& feature,
                                                      const Holder* holders, const std::uint32_t* inText,
                                                      const Count* counts, Scratch& scratch, ScoreBlock& scores) {
  const TextTable::Text* const texts = work.texts.texts.data();
  const std::int64_t prompts = work.rows.prompts, held = feature.holders;
  const bool half = pass.fold == kHalf;
  const Count* const first = half ? counts : counts + (pass.fold == 0 ? 0 : feature.ends[pass.fold - 1]);
  const Count* const end = counts + feature.ends[half ? kMostFolds - 1 : pass.fold];
  const auto rowOf = [&](const Count& count) {
    const TextTable::Text& text = texts[count.text];
    return static_cast<std::int64_t>(half ? text.inOdd : text.inFold) - pass.begin;
  };
  const std::int64_t size = pass.end - pass.begin;
  const Count* present = first;
  while (present < end && (rowOf(*present) < 0 || rowOf(*present) >= size)) present++;
  if (present == end) return;

  // The factors of what all rows of a holder have, then of what it was trained with: all but the rows of the fold, or
  // of odd places. By prompts q is b, so that the two thirds of b stand together.
  const double* const inverse = half ? work.shares.even.data() : work.shares.others.data() + pass.fold * prompts;
  const double scale = work.shares.all / feature.total / (work.rows.byPrompts ? 2.0 : 1.0);
  const auto factorOf = [&](double trained, std::int64_t i) {
    const std::uint32_t j = holders[i].prompt;
    double share = trained * inverse[j];
    if (inText != nullptr) share += inText[i] * work.shares.text[j];
    return 1.0 + share * scale;
  };
  const bool dense = held * 4 >= prompts;
  double* const factors = scratch.powers.data();
  double* const trained = scratch.trained.data();
  if (dense && held < prompts) std::fill_n(factors, prompts, 1.0);
  if (dense) {
    for (std::int64_t i = 0; i < held; i++) factors[holders[i].prompt] = factorOf(holders[i].total, i);
  } else {
    for (std::int64_t i = 0; i < held; i++) factors[i] = factorOf(holders[i].total, i);
  }
  for (const Count* at = first; at < end; at++) trained[at->holder] = holders[at->holder].total;
  for (const Count* at = first; at < end; at++) {
    if (half && texts[at->text].inOdd == TextTable::kEven) continue;
    trained[at->holder] -= at->count;
    factors[dense ? holders[at->holder].prompt : at->holder] = factorOf(trained[at->holder], at->holder);
  }
  const std::int64_t count = dense ? prompts : held;
  const Holder* const at = dense ? nullptr : holders;
  int exponent = pass.exponent;
  if (inText != nullptr) {
    std::int64_t most = kOneBits;  // doubles from 1 on are ordered as their bits are
    for (std::int64_t i = 0; i < count; i++) {
      const auto bits = static_cast<std::int64_t>(bitsOf(factors[i]));
      most = bits > most ? bits : most;
    }
    if (most == kOneBits) return;
    exponent = exponentOf(fromBits(static_cast<std::uint64_t>(most)));
  } else if (held == 1 && factors[dense ? holders->prompt : 0] == 1.0) {
    return;
  }
  std::uint32_t powers = 1;
  for (const Count* of = present; of < end; of++) {
    const std::int64_t row = rowOf(*of);
    if (row < 0 || row >= size) continue;
    if (of->count > kMostPower) {
      scores.addLogs(row, at, factors, count, of->count);
      continue;
    }
    for (; powers < of->count; powers++) {
      const double* const before = factors + (powers - 1) * prompts;
      double* const power = factors + powers * prompts;
      COLLAPSAR_NO_OVERLAP
      for (std::int64_t i = 0; i < count; i++) power[i] = before[i] * factors[i];
    }
    scores.multiply(row, at, factors + (of->count - 1) * prompts, count, exponent * static_cast<int>(of->count));
  }
}

inline __attribute__((always_inline)) void addList(const Work& work, const Pass& pass, const FeatureList& list,
                                                   Scratch& scratch, ScoreBlock& scores) {
  const Holder* holders = list.holders;
  const std::uint32_t* inText = list.inText;
  const Count* counts = list.counts;
  for (const Feature* at = list.features; at < list.features + list.featureCount; at++) {
    addFeature(work, pass, *at, holders, inText, counts, scratch, scores);
    holders += at->holders;
    if (inText != nullptr) inText += at->holders;
    counts += at->ends[kMostFolds - 1];
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

inline __attribute__((always_inline)) void reduceRows(const Work& work, const Pass& pass, ScoreBlock& scores) {
  const std::vector<std::int64_t>& rows = pass.fold == kHalf ? work.texts.oddRows : work.texts.rowsOf[pass.fold];
  for (std::int64_t i = pass.begin; i < pass.end; i++) {
    const std::int64_t row = rows[i];
    const double* const ofRow = scores.finish(i - pass.begin);
    if (pass.fold != kHalf) reduceRow(work, row, ofRow);
    if (pass.fold == kHalf || (!work.splits && work.testedAt[row] >= 0)) reduceTested(work, row, ofRow);
  }
}

// Without the instruction each fma of deterministic_math.h is a call; the bits are the same.
#ifdef COLLAPSAR_FMA
COLLAPSAR_FMA void addListFma(const Work& work, const Pass& pass, const FeatureList& list, Scratch& scratch,
                              ScoreBlock& scores) {
  addList(work, pass, list, scratch, scores);
}
COLLAPSAR_FMA void reduceRowsFma(const Work& work, const Pass& pass, ScoreBlock& scores) {
  reduceRows(work, pass, scores);
}
#endif

bool hasFma() { return activeIsa() == Isa::Avx2 || activeIsa() == Isa::Avx512; }

void addListWide(const Work& work, const Pass& pass, const FeatureList& list, Scratch& scratch, ScoreBlock& scores) {
#ifdef COLLAPSAR_FMA
  if (hasFma()) return addListFma(work, pass, list, scratch, scores);
#endif
  addList(work, pass, list, scratch, scores);
}

void reduceRowsWide(const Work& work, const Pass& pass, ScoreBlock& scores) {
#ifdef COLLAPSAR_FMA
  if (hasFma()) return reduceRowsFma(work, pass, scores);
#endif
  reduceRows(work, pass, scores);
}

}  // namespace

Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  std::int64_t scoreBytes, bool keepsAll, RowScores& out, ThreadPool& pool, JobControl& control) {
  const TextTable texts(rows, tokens, promptTokens);
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

  // With two folds the half split is the second fold's training, and by prompts nothing is trained.
  const bool splits = rows.folds > 2;
  // A block's scores stay in a second-level cache, and there are blocks for all threads.
  const std::int64_t mostRows = std::max<std::int64_t>(1, kBlockBytes / (rows.prompts * 16));
  const std::int64_t all = rows.rows + (splits ? static_cast<std::int64_t>(texts.oddRows.size()) : 0);
  const std::int64_t blockRows = std::min(mostRows, (all + pool.threads() - 1) / pool.threads());
  std::vector<Pass> passes;
  for (int fold = 0; fold < (splits ? kHalf + 1 : rows.folds); fold++) {
    if (fold >= rows.folds && fold != kHalf) continue;
    const auto count = static_cast<std::int64_t>((fold == kHalf ? texts.oddRows : texts.rowsOf[fold]).size());
    const double* const inverse = fold == kHalf ? shares.even.data() : shares.others.data() + fold * rows.prompts;
    const double most = *std::max_element(inverse, inverse + rows.prompts);
    for (std::int64_t begin = 0; begin < count; begin += blockRows) {
      passes.push_back({fold, begin, std::min(count, begin + blockRows), exponentOf(1.0 + most * shares.all)});
    }
  }
  const Work work{rows, texts, lists, shares, splits, out, testedAt};
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.threads()), Scratch(rows.prompts));
  // Scores of so many rows at a time as memory is allowed; the features are listed anew for each lot.
  const auto lot =
      static_cast<std::size_t>(std::max<std::int64_t>(pool.threads(), scoreBytes / (blockRows * rows.prompts * 16)));
  for (std::size_t begun = 0; begun < passes.size(); begun += lot) {
    const std::size_t end = std::min(passes.size(), begun + lot);
    std::vector<ScoreBlock> blocks;
    for (std::size_t i = begun; i < end; i++) blocks.emplace_back(passes[i].end - passes[i].begin, rows.prompts);
    for (std::int64_t batch = 0; batch < lists.batches(); batch++) {
      if (lists.list(batch, postings, begun == 0, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
      const Outcome scored =
          pool.run(static_cast<std::int64_t>(end - begun), control, [&](std::int64_t index, int worker) {
            const auto i = static_cast<std::size_t>(index);
            for (const FeatureList& list : lists.lists()) {
              if (control.cancelled.load(std::memory_order_relaxed)) return;
              addListWide(work, passes[begun + i], list, scratch[static_cast<std::size_t>(worker)], blocks[i]);
            }
          });
      if (scored == Outcome::Cancelled) return scored;
    }
    const Outcome reduced = pool.run(static_cast<std::int64_t>(end - begun), control, [&](std::int64_t index, int) {
      const auto i = static_cast<std::size_t>(index);
      reduceRowsWide(work, passes[begun + i], blocks[i]);
    });
    if (reduced == Outcome::Cancelled) return reduced;
  }
  return Outcome::Done;
}

}  // namespace collapsar
