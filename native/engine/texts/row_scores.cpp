// S_rj = sum over features f of c_r(f) ln(q_j(f)/3 + d_j(f)/3 + b(f)/3). A feature that prompt j lacks costs
// ln(b(f)/3) whatever j is, so
//
//   S_rj = sum c_r(f) ln(b(f)/3)  +  sum over the features that j has of c_r(f) ln(1 + (q_j(f) + d_j(f)) / b(f)).
//
// The first sum, the same for all prompts, only says how near two scores must be to count as equal. The second is kept
// as a product of its factors, whose logarithm is taken before it could overflow: a multiplication for each row,
// feature and prompt. Each row multiplies in the order of partitions and, in them, of n-grams, whichever thread does it.
#include "row_scores.h"

#include <cmath>
#include <cstring>

#include "engine/deterministic_math.h"
#include "engine/isa.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COLLAPSAR_FMA __attribute__((target("avx2,fma")))
#endif

namespace collapsar {

namespace {

constexpr int kMostFolds = 8;
constexpr std::uint8_t kPromptText = kMostFolds;  // in place of a fold
constexpr int kMostExponent = 1000;               // of a product before its logarithm is taken
constexpr std::int64_t kBlockBytes = 1 << 22;     // scores of rows that are made at a time
constexpr std::int64_t kCheckedFeatures = 512;    // between looks at `cancelled`
constexpr double kBaseUnit = 0x1p-24;             // of the first sum, which whole numbers add up in any order
constexpr std::int64_t kKnownLogs = 4096;

struct Count {
  std::uint32_t text, count;
};

// A feature that a used row and another text have. Its counts follow those of the one before.
struct Feature {
  std::uint32_t counts;
  std::uint32_t total;  // in used rows
};

// Texts: the used rows prompt by prompt, each prompt's followed by its own text where prompts are known.
struct TextTable {
  std::vector<std::int64_t> entries;
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint8_t> fold;
  std::vector<std::uint8_t> odd;  // place

  TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens) {
    for (std::int64_t j = 0; j < rows.prompts; j++) {
      for (std::int64_t row = rows.firstRow[j]; row < rows.firstRow[j + 1]; row++) {
        add(j, rows.fold[row], rows.place(row) % 2 == 1, tokens.count(rows.row[row]));
      }
      if (rows.promptsKnown) add(j, kPromptText, false, promptTokens->count(rows.promptText[j]));
    }
  }

 private:
  void add(std::int64_t j, std::uint8_t ofFold, bool isOdd, std::int64_t tokens) {
    entries.push_back(NgramHash::featureCount(tokens));
    prompt.push_back(static_cast<std::uint32_t>(j));
    fold.push_back(ofFold);
    odd.push_back(isOdd);
  }
};

std::int64_t textOf(const UsedRows& rows, std::int64_t row) { return rows.promptsKnown ? row + rows.prompt[row] : row; }

// Features of all partitions, those in one row alone left out: they cost the same under every prompt.
struct FeatureLists {
  std::unique_ptr<Feature[]> features;
  std::unique_ptr<Count[]> counts;
  std::vector<std::int64_t> featureEnds, countEnds;  // [partitions]
  std::vector<std::int64_t> base;                    // [R] the first sum in kBaseUnit, but for what all rows share
};

Outcome listFeatures(const UsedRows& rows, const TextTable& texts, const TokenHashes& tokens,
                     const TokenHashes* promptTokens, NgramHash hash, FeatureLists& out, PostingLists& lists,
                     ThreadPool& pool, JobControl& control) {
  // Texts -> tokens.
  std::vector<std::int64_t> rowOf(texts.entries.size(), -1);
  for (std::int64_t row = 0; row < rows.rows; row++) rowOf[textOf(rows, row)] = row;
  const Outcome filled = lists.fill(pool, control, [&](std::int64_t text, std::uint64_t* hashes) {
    if (rowOf[text] >= 0) {
      const std::int64_t row = rows.row[rowOf[text]];
      hash.features(tokens.of(row), tokens.count(row), hashes);
    } else {
      const std::int64_t prompt = rows.promptText[texts.prompt[text]];
      hash.features(promptTokens->of(prompt), promptTokens->count(prompt), hashes);
    }
  });
  if (filled == Outcome::Cancelled) return filled;

  const std::int64_t partitions = lists.partitions(), total = lists.entriesBefore(partitions);
  out.features.reset(new Feature[static_cast<std::size_t>(total / 2 + 1)]);
  out.counts.reset(new Count[static_cast<std::size_t>(total + 1)]);
  out.featureEnds.resize(static_cast<std::size_t>(partitions));
  out.countEnds.resize(static_cast<std::size_t>(partitions));
  std::vector<std::int64_t> logs(kKnownLogs);
  const auto units = [](std::uint32_t count) {
    return std::llround(deterministicLog(static_cast<double>(count)) / kBaseUnit);
  };
  for (std::uint32_t n = 1; n < kKnownLogs; n++) logs[n] = units(n);
  std::vector<std::vector<std::int64_t>> base(static_cast<std::size_t>(pool.threads()));
  for (auto& ofWorker : base) ofWorker.resize(static_cast<std::size_t>(rows.rows));

  const Outcome grouped = lists.group(
      pool, control,
      [&](std::int64_t partition, int worker, const Ngram* ngrams, std::int64_t ngramCount, const Posting* postings) {
        Feature* feature = out.features.get() + lists.entriesBefore(partition) / 2;
        Count* count = out.counts.get() + lists.entriesBefore(partition);
        std::vector<std::int64_t>& bases = base[static_cast<std::size_t>(worker)];
        for (const Ngram* ngram = ngrams; ngram < ngrams + ngramCount; ngram++) {
          if (ngram->postings == 1 && postings[ngram->first].count == 1) continue;  // ln 1 = 0
          std::uint32_t inRows = 0;
          for (std::uint32_t at = ngram->first; at != kNoPosting; at = postings[at].next) {
            if (texts.fold[postings[at].text] != kPromptText) inRows += postings[at].count;
          }
          if (inRows == 0) continue;
          const std::int64_t log = inRows < kKnownLogs ? logs[inRows] : units(inRows);
          for (std::uint32_t at = ngram->first; at != kNoPosting; at = postings[at].next) {
            if (const std::int64_t row = rowOf[postings[at].text]; row >= 0) bases[row] += log * postings[at].count;
          }
          if (ngram->postings == 1) continue;
          *feature++ = {ngram->postings, inRows};
          for (std::uint32_t at = ngram->first; at != kNoPosting; at = postings[at].next) {
            *count++ = {postings[at].text, postings[at].count};
          }
        }
        out.featureEnds[partition] = feature - out.features.get();
        out.countEnds[partition] = count - out.counts.get();
      });
  out.base.resize(static_cast<std::size_t>(rows.rows));
  for (const auto& ofWorker : base) {
    for (std::int64_t row = 0; row < rows.rows; row++) out.base[row] += ofWorker[row];
  }
  return grouped;
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
      const std::size_t j = texts.prompt[at];
      if (texts.fold[at] == kPromptText) {
        text[j] = count > 0 ? 1 / count : 0;
        continue;
      }
      inFold[texts.fold[at] * prompts + j] += count;
      total[j] += count;
      if (texts.odd[at] == 0) even[j] += count;
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
        products_(static_cast<std::size_t>(rows * prompts)),
        sums_(products_.size()),
        exponents_(static_cast<std::size_t>(rows)),
        powers_(static_cast<std::size_t>(prompts)) {}

  void clear() {
    std::fill(products_.begin(), products_.end(), 1.0);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(exponents_.begin(), exponents_.end(), 0);
  }

  // Multiplies the row's products of prompts at[0..count) with factors[i]^times, each at least 1 and below 2^exponent.
  // at null: prompts 0 to count.
  inline __attribute__((always_inline)) void multiply(std::int64_t row, const std::uint32_t* at, const double* factors,
                                                      std::int64_t count, std::uint32_t times, int exponent) {
    double* const products = products_.data() + row * prompts_;
    if (times > 1) {
      if (times > static_cast<std::uint32_t>(kMostExponent / exponent)) {
        double* const sums = sums_.data() + row * prompts_;
        for (std::int64_t i = 0; i < count; i++) {
          sums[at == nullptr ? i : at[i]] += times * deterministicLog(factors[i]);
        }
        return;
      }
      for (std::int64_t i = 0; i < count; i++) powers_[i] = power(factors[i], times);
      factors = powers_.data();
      exponent *= static_cast<int>(times);
    }
    int& reached = exponents_[row];
    if (reached + exponent > kMostExponent) flush(row);
    reached += exponent;
    if (at == nullptr) {
      for (std::int64_t i = 0; i < count; i++) products[i] *= factors[i];
    } else {
      for (std::int64_t i = 0; i < count; i++) products[at[i]] *= factors[i];
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

  static inline __attribute__((always_inline)) double power(double base, std::uint32_t times) {
    double result = (times & 1) != 0 ? base : 1.0;
    for (times >>= 1; times > 0; times >>= 1) {
      base *= base;
      if ((times & 1) != 0) result *= base;
    }
    return result;
  }

  std::int64_t prompts_;
  std::vector<double> products_, sums_;  // [rows, P]
  std::vector<int> exponents_;           // [rows]: the row's products are below 2^this
  std::vector<double> powers_;           // [P]
};

// Where one feature is: for each prompt that has it, its counts.
struct Holders {
  explicit Holders(std::int64_t prompts)
      : prompt(static_cast<std::size_t>(prompts)),
        inFold(static_cast<std::size_t>(prompts * kMostFolds)),
        total(prompt.size()),
        even(prompt.size()),
        text(prompt.size()),
        factors(static_cast<std::size_t>(prompts) * (kMostFolds + 1)) {}

  std::vector<std::uint32_t> prompt;
  std::vector<double> inFold;             // [holders, kMostFolds]
  std::vector<double> total, even, text;  // [holders]; `text` as a share
  std::vector<double> factors;            // [kMostFolds + 1, P]: of each fold, and of the half split
};

struct Work {
  const UsedRows& rows;
  const TextTable& texts;
  const FeatureLists& lists;
  const Shares& shares;
  bool splits;  // the half split is another training than a fold's

  std::int64_t firstRow, endRow;
};

struct Scratch {
  Scratch(std::int64_t rows, std::int64_t prompts, bool splits)
      : scores(rows, prompts), half(splits ? rows : 0, prompts), holders(prompts) {}

  ScoreBlock scores, half;
  Holders holders;
};

// The factors 1 + (q + d) / b of one training, under `count` holders or, if dense, under every prompt. Returns the
// exponent that they are below.
template <typename Share>
inline __attribute__((always_inline)) int factorsOf(const Holders& holders, std::int64_t count, std::int64_t prompts,
                                                    bool dense, double scale, double* factors, Share share) {
  double most = 1.0;
  if (dense) std::fill_n(factors, prompts, 1.0);
  for (std::int64_t i = 0; i < count; i++) {
    const double factor = 1.0 + (share(i, holders.prompt[i]) + holders.text[i]) * scale;
    most = factor > most ? factor : most;
    factors[dense ? holders.prompt[i] : i] = factor;
  }
  return most == 1.0 ? 0 : static_cast<int>(bitsOf(most) >> 52) - 1022;
}

inline __attribute__((always_inline)) void addFeature(const Work& work, const Feature& feature, const Count* counts,
                                                      Scratch& scratch) {
  const UsedRows& rows = work.rows;
  const TextTable& texts = work.texts;
  Holders& holders = scratch.holders;
  const std::int64_t prompts = rows.prompts;
  const Count* const end = counts + feature.counts;
  const std::uint32_t firstText = static_cast<std::uint32_t>(textOf(rows, work.firstRow));
  const std::uint32_t lastText = static_cast<std::uint32_t>(textOf(rows, work.endRow - 1));
  if (counts->text > lastText || end[-1].text < firstText) return;

  std::int64_t held = -1;
  std::uint32_t last = UINT32_MAX, foldsHere = 0;
  bool oddHere = false;
  for (const Count* at = counts; at < end; at++) {
    const std::uint32_t j = texts.prompt[at->text];
    if (j != last) {
      last = j;
      held++;
      holders.prompt[held] = j;
      holders.total[held] = holders.even[held] = holders.text[held] = 0;
      std::fill_n(holders.inFold.data() + held * kMostFolds, kMostFolds, 0.0);
    }
    const std::uint8_t fold = texts.fold[at->text];
    if (fold == kPromptText) {
      holders.text[held] = at->count * work.shares.text[j];
      continue;
    }
    const bool odd = texts.odd[at->text] != 0;
    holders.total[held] += at->count;
    holders.inFold[held * kMostFolds + fold] += at->count;
    if (!odd) holders.even[held] += at->count;
    if (at->text >= firstText && at->text <= lastText) {
      foldsHere |= 1u << fold;
      oddHere |= odd;
    }
  }
  held++;
  if (foldsHere == 0) return;

  // By prompts q is b, so that the two thirds of b stand together.
  const double scale = work.shares.all / feature.total / (rows.byPrompts ? 2.0 : 1.0);
  const bool dense = held * 4 >= prompts;
  const std::uint32_t* const at = dense ? nullptr : holders.prompt.data();
  const std::int64_t count = dense ? prompts : held;
  int exponents[kMostFolds + 1] = {};
  for (int fold = 0; fold < rows.folds; fold++) {
    if ((foldsHere >> fold & 1) == 0) continue;
    const double* const others = work.shares.others.data() + fold * prompts;
    exponents[fold] = factorsOf(holders, held, prompts, dense, scale, holders.factors.data() + fold * prompts,
                                [&](std::int64_t i, std::uint32_t j) {
                                  return (holders.total[i] - holders.inFold[i * kMostFolds + fold]) * others[j];
                                });
  }
  double* const halfFactors = holders.factors.data() + kMostFolds * prompts;
  if (work.splits && oddHere) {
    exponents[kMostFolds] = factorsOf(holders, held, prompts, dense, scale, halfFactors,
                                      [&](std::int64_t i, std::uint32_t j) {
                                        return holders.even[i] * work.shares.even[j];
                                      });
  }
  for (const Count* of = counts; of < end; of++) {
    if (of->text < firstText || of->text > lastText) continue;
    const std::uint8_t fold = texts.fold[of->text];
    if (fold == kPromptText) continue;
    const std::int64_t row = of->text - (rows.promptsKnown ? texts.prompt[of->text] : 0) - work.firstRow;
    if (exponents[fold] > 0) {
      scratch.scores.multiply(row, at, holders.factors.data() + fold * prompts, count, of->count, exponents[fold]);
    }
    if (work.splits && exponents[kMostFolds] > 0 && texts.odd[of->text] != 0) {
      scratch.half.multiply(row, at, halfFactors, count, of->count, exponents[kMostFolds]);
    }
  }
}

// Features [begin, end) of a partition.
inline __attribute__((always_inline)) const Count* addFeatures(const Work& work, const Feature* begin,
                                                               const Feature* end, const Count* counts,
                                                               Scratch& scratch) {
  for (; begin < end; begin++) {
    addFeature(work, *begin, counts, scratch);
    counts += begin->counts;
  }
  return counts;
}

inline __attribute__((always_inline)) double meanOf(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; j++) sum += values[j];
  return sum / static_cast<double>(count);
}

// What the figures need of one row. half: its scores in the half split, null if it tests none. tested: [P].
inline __attribute__((always_inline)) void reduceRow(const Work& work, std::int64_t row, const double* scores,
                                                     const double* half, RowScores& out, double* tested) {
  const UsedRows& rows = work.rows;
  const std::int64_t prompts = rows.prompts, own = rows.prompt[row];
  const auto features = static_cast<double>(work.texts.entries[textOf(rows, row)]);
  // All features cost ln(b/3), where prompts are not known ln(b/2), by prompts ln(2b/3).
  const double part = rows.byPrompts ? 2.0 / 3.0 : rows.promptsKnown ? 1.0 / 3.0 : 0.5;
  const double base = static_cast<double>(work.lists.base[row]) * kBaseUnit +
                      features * (deterministicLog(part) - deterministicLog(work.shares.all));
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
  out.above[row] = above;
  out.equal[row] = equal;
  out.excess[row] = (ownScore - others / static_cast<double>(prompts - 1)) / features;
  double temperature = 1;
  for (int t = 0; t < kTemperatures; t++, temperature *= 2) {
    double sum = 0;
    // Below e^-708 there is nothing that a sum of at least 1 would notice.
    const auto term = [&](double score) {
      const double fall = (score - most) / temperature;
      return fall < -700 ? 0.0 : deterministicExp(fall);
    };
    for (std::int64_t j = 0; j < prompts; j++) sum += term(scores[j]);
    out.ownShare[row * kTemperatures + t] = term(ownScore) / sum;
  }
  if (half == nullptr) return;
  const double mean = meanOf(half, prompts);
  for (std::int64_t j = 0; j < prompts; j++) tested[j] = (half[j] - mean) / features;
}

inline __attribute__((always_inline)) void reduceRows(const Work& work, Scratch& scratch,
                                                      const std::vector<std::int64_t>& testedAt, RowScores& out) {
  for (std::int64_t row = work.firstRow; row < work.endRow; row++) {
    const double* const scores = scratch.scores.finish(row - work.firstRow);
    const double* half = nullptr;
    double* tested = nullptr;
    if (testedAt[row] >= 0) {
      half = work.splits ? scratch.half.finish(row - work.firstRow) : scores;
      tested = out.testedExcess.data() + testedAt[row] * work.rows.prompts;
    }
    reduceRow(work, row, scores, half, out, tested);
  }
}

// Without the instruction each fma of deterministic_math.h is a call; the bits are the same.
#ifdef COLLAPSAR_FMA
COLLAPSAR_FMA const Count* addFeaturesFma(const Work& work, const Feature* begin, const Feature* end,
                                          const Count* counts, Scratch& scratch) {
  return addFeatures(work, begin, end, counts, scratch);
}
COLLAPSAR_FMA void reduceRowsFma(const Work& work, Scratch& scratch, const std::vector<std::int64_t>& testedAt,
                                 RowScores& out) {
  reduceRows(work, scratch, testedAt, out);
}
#endif

bool hasFma() { return activeIsa() == Isa::Avx2 || activeIsa() == Isa::Avx512; }

const Count* addFeaturesWide(const Work& work, const Feature* begin, const Feature* end, const Count* counts,
                             Scratch& scratch) {
#ifdef COLLAPSAR_FMA
  if (hasFma()) return addFeaturesFma(work, begin, end, counts, scratch);
#endif
  return addFeatures(work, begin, end, counts, scratch);
}

void reduceRowsWide(const Work& work, Scratch& scratch, const std::vector<std::int64_t>& testedAt, RowScores& out) {
#ifdef COLLAPSAR_FMA
  if (hasFma()) return reduceRowsFma(work, scratch, testedAt, out);
#endif
  reduceRows(work, scratch, testedAt, out);
}

}  // namespace

Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  RowScores& out, ThreadPool& pool, JobControl& control) {
  const TextTable texts(rows, tokens, promptTokens);
  FeatureLists lists;
  std::int64_t partitions = 0;
  std::vector<std::int64_t> firstFeature, firstCount;
  {
    PostingLists postings(texts.entries, pool.threads());
    const Outcome listed = listFeatures(rows, texts, tokens, promptTokens, hash, lists, postings, pool, control);
    if (listed == Outcome::Cancelled) return listed;
    partitions = postings.partitions();
    for (std::int64_t partition = 0; partition < partitions; partition++) {
      firstFeature.push_back(postings.entriesBefore(partition) / 2);
      firstCount.push_back(postings.entriesBefore(partition));
    }
  }
  const Shares shares(rows, texts);

  out.ownShare.resize(static_cast<std::size_t>(rows.rows * kTemperatures));
  out.above.resize(static_cast<std::size_t>(rows.rows));
  out.equal.resize(static_cast<std::size_t>(rows.rows));
  out.excess.resize(static_cast<std::size_t>(rows.rows));
  std::vector<std::int64_t> testedAt(static_cast<std::size_t>(rows.rows), -1);
  for (const std::int64_t row : rows.atPosition) {
    if (!rows.byPrompts && rows.place(row) % 2 == 0) continue;
    testedAt[row] = static_cast<std::int64_t>(out.testedOwn.size());
    out.testedOwn.push_back(rows.prompt[row]);
  }
  out.testedExcess.resize(out.testedOwn.size() * static_cast<std::size_t>(rows.prompts));

  // With two folds the half split is the second fold's training, and by prompts nothing is trained.
  const bool splits = rows.folds > 2;
  const std::int64_t most = std::max<std::int64_t>(1, kBlockBytes / (rows.prompts * (splits ? 32 : 16)));
  const std::int64_t each = (rows.rows + pool.threads() - 1) / pool.threads();
  const std::int64_t blockRows = std::min(most, each), blocks = (rows.rows + blockRows - 1) / blockRows;
  std::vector<Scratch> scratch;
  for (int worker = 0; worker < pool.threads(); worker++) scratch.emplace_back(blockRows, rows.prompts, splits);
  return pool.run(blocks, control, [&](std::int64_t block, int worker) {
    Scratch& mine = scratch[static_cast<std::size_t>(worker)];
    const std::int64_t firstRow = block * blockRows, endRow = std::min(rows.rows, firstRow + blockRows);
    const Work work{rows, texts, lists, shares, splits, firstRow, endRow};
    mine.scores.clear();
    mine.half.clear();
    for (std::int64_t partition = 0; partition < partitions; partition++) {
      const Feature* feature = lists.features.get() + firstFeature[partition];
      const Feature* const end = lists.features.get() + lists.featureEnds[partition];
      const Count* count = lists.counts.get() + firstCount[partition];
      while (feature < end) {
        if (control.cancelled.load(std::memory_order_relaxed)) return;
        const Feature* const next = std::min(end, feature + kCheckedFeatures);
        count = addFeaturesWide(work, feature, next, count, mine);
        feature = next;
      }
    }
    reduceRowsWide(work, mine, testedAt, out);
    for (std::int64_t row = firstRow; row < endRow; row++) {
      control.doneUnits.fetch_add(texts.entries[textOf(rows, row)], std::memory_order_relaxed);
    }
  });
}

}  // namespace collapsar
