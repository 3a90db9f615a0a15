// Counts the features of the rows that are read in all rows, then adds up their parts of the scores. A prompt that
// lacks a feature adds nothing: its part is ln(1 + (q + d) / b), as in row_scores.cpp.
#include "row_readings.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/simd/kernel_table.h"
#include "hash_shards.h"
#include "words.h"

namespace collapsar {

namespace {

// Sums over prompts are whole numbers of 2^-36 nats, or of more where there are very many prompts: such sums do not
// depend on which thread took which prompt, and no logarithm here reaches 2^6.
int unitBitsOf(std::int64_t prompts) {
  return std::min(36, 56 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(prompts))));
}

// A row that is read, with the features of the tokens that are.
struct ReadRow {
  std::int64_t used, tokens;
  std::size_t firstEntry, endEntry;
};

// What a feature is worth to rows of one fold.
struct Worth {
  std::uint32_t feature, fold;
};

class ReadFeatures {
 public:
  ReadFeatures(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, const std::vector<std::int64_t>& used,
               std::int64_t mostTokens)
      : numbers_(entriesOf(rows, tokens, used, mostTokens)) {
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> featureOf;
    std::vector<std::uint8_t> foldOf;
    for (const std::int64_t row : used) {
      const std::int64_t all = tokens.count(rows.row[row]), read = std::min(all, mostTokens);
      hashes.resize(static_cast<std::size_t>(NgramHash::featureCount(std::min(all, read + 1))));
      hash.features(tokens.of(rows.row[row]), std::min(all, read + 1), hashes.data());
      const std::size_t first = featureOf.size();
      for (std::int64_t i = 0; i < 2 * read; i++) featureOf.push_back(numbers_.add(hashes[i]));
      // The pair behind the last token: with the next one, or with the mark.
      featureOf.push_back(numbers_.add(hashes[read < all ? 2 * read + 1 : 2 * read]));
      foldOf.resize(featureOf.size(), rows.fold[row]);
      readRows.push_back({row, read, first, featureOf.size()});
    }
    // Entries of equal feature and fold are worth the same.
    std::vector<std::size_t> order(featureOf.size());
    for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return featureOf[a] != featureOf[b] ? featureOf[a] < featureOf[b] : foldOf[a] < foldOf[b];
    });
    worthOf.resize(order.size());
    firstWorth.resize(numbers_.count() + 1);
    for (const std::size_t at : order) {
      if (worths.empty() || worths.back().feature != featureOf[at] || worths.back().fold != foldOf[at]) {
        worths.push_back({featureOf[at], foldOf[at]});
      }
      worthOf[at] = static_cast<std::int32_t>(worths.size() - 1);
      firstWorth[featureOf[at] + 1] = static_cast<std::int32_t>(worths.size());
    }
  }

  const HashNumbers& numbers() const { return numbers_; }
  std::size_t count() const { return numbers_.count(); }

  std::vector<ReadRow> readRows;
  std::vector<std::int32_t> worthOf;     // of each row's entries, one row after the other
  std::vector<Worth> worths;             // feature by feature
  std::vector<std::int32_t> firstWorth;  // [features + 1]

 private:
  static std::size_t entriesOf(const UsedRows& rows, const TokenHashes& tokens, const std::vector<std::int64_t>& used,
                               std::int64_t mostTokens) {
    std::size_t entries = 0;
    for (const std::int64_t row : used) {
      entries += static_cast<std::size_t>(2 * std::min(tokens.count(rows.row[row]), mostTokens) + 1);
    }
    return entries;
  }

  HashNumbers numbers_;
};

// One worker's: what is counted of one prompt.
struct PromptCounts {
  std::vector<std::uint64_t> hashes;  // of one text
  std::vector<std::uint32_t> found;   // of a prompt's text
  std::vector<std::uint32_t> totals;  // [features]: in all used rows that the worker went through
  // [features, folds + 2]: in each fold's rows, in the prompt's text; last which prompt it was counted for, from 1 on.
  std::vector<std::uint32_t> counts;
  std::vector<std::int32_t> touched;  // features that the prompt has
  std::vector<double> ratios;         // of the touched ones: 1 + (q + d) / b, one a worth
  std::vector<double> nats;           // [worths]: 0 where the prompt lacks the feature
  std::vector<std::int64_t> sums;     // [worths]: over prompts, in units
};

// The chosen rows, the most generic first; of rows alike those that come first in the order of keys.
std::vector<std::int64_t> chosenRows(const UsedRows& rows, const RowScores& scores, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.rows));
  for (std::size_t i = 0; i < order.size(); i++) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores.excess[a] != scores.excess[b] ? scores.excess[a] < scores.excess[b]
                                                : rows.position[a] < rows.position[b];
  });
  if (count < rows.rows) order.erase(order.begin() + (count + 1) / 2, order.end() - count / 2);
  return order;
}

void placeWords(const Texts& texts, std::int64_t text, std::int64_t count, std::vector<double>& out) {
  const std::uint8_t* const begin = texts.bytes + texts.offsets[text];
  WordReader reader(begin, texts.bytes + texts.offsets[text + 1]);
  const std::uint8_t *word, *wordEnd;
  for (std::int64_t i = 0; i < count && reader.next(word, wordEnd); i++) {
    // What stands for a byte that is no character is not in the text.
    const std::uint8_t* const from = word == words::kReplacement ? reader.at() - 1 : word;
    out.push_back(static_cast<double>(from - begin));
    out.push_back(static_cast<double>(reader.at() - begin));
  }
}

}  // namespace

Outcome readRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                 const RowScores& scores, std::int64_t count, std::int64_t mostTokens, std::vector<RowReading>& out,
                 ThreadPool& pool, JobControl& control) {
  const ReadFeatures features(rows, tokens, hash, chosenRows(rows, scores, count), mostTokens);
  const auto size = features.count();
  const auto folds = static_cast<std::size_t>(rows.folds), stride = folds + 2;
  std::int64_t mostFeatures = 0;
  for (const std::int64_t text : rows.row) mostFeatures = std::max(mostFeatures, tokens.count(text));
  for (const std::int32_t text : rows.promptText) mostFeatures = std::max(mostFeatures, promptTokens->count(text));
  mostFeatures = NgramHash::featureCount(mostFeatures);
  std::vector<PromptCounts> workers(static_cast<std::size_t>(pool.threads()));
  for (PromptCounts& own : workers) {
    own.hashes.resize(static_cast<std::size_t>(mostFeatures));
    own.found.resize(rows.promptsKnown ? static_cast<std::size_t>(mostFeatures) : 0);
    own.totals.resize(size);
    own.counts.resize(size * stride);
    own.touched.reserve(size);
    own.ratios.reserve(features.worths.size() + kVectorDoubles);
    own.nats.resize(features.worths.size());
    own.sums.resize(features.worths.size());
  }
  // Writes the features of a text that are counted, as often as they occur, and returns their number.
  const auto findIn = [&](PromptCounts& own, const TokenHashes& of, std::int64_t text, std::uint32_t* out) {
    const std::int64_t number = NgramHash::featureCount(of.count(text));
    hash.features(of.of(text), of.count(text), own.hashes.data());
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < number; i++) {
      const std::uint32_t feature = features.numbers().find(own.hashes[static_cast<std::size_t>(i)]);
      if (feature != HashNumbers::kNone) out[found++] = feature;
    }
    return found;
  };
  const auto rowsOf = [&](std::int64_t prompt) { return std::pair(rows.firstRow[prompt], rows.firstRow[prompt + 1]); };

  // Those of used rows: of row i [firsts[i], ends[i]), with room up to firsts[i + 1].
  std::vector<std::int64_t> firsts(static_cast<std::size_t>(rows.rows + 1)), ends(firsts.size());
  for (std::int64_t row = 0; row < rows.rows; row++) {
    firsts[row + 1] = firsts[row] + NgramHash::featureCount(tokens.count(rows.row[row]));
  }
  const UnsetArray<std::uint32_t> found(static_cast<std::size_t>(firsts.back()));
  std::vector<std::int64_t> featuresOf(static_cast<std::size_t>(rows.prompts) * folds);  // [P, folds]
  const Outcome counted = pool.run(rows.prompts, control, [&](std::int64_t prompt, int worker) {
    PromptCounts& own = workers[static_cast<std::size_t>(worker)];
    const auto [begin, end] = rowsOf(prompt);
    for (std::int64_t row = begin; row < end; row++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      featuresOf[static_cast<std::size_t>(prompt) * folds + rows.fold[row]] += firsts[row + 1] - firsts[row];
      ends[row] = firsts[row] + findIn(own, tokens, rows.row[row], found.get() + firsts[row]);
      for (std::int64_t at = firsts[row]; at < ends[row]; at++) own.totals[found.get()[at]]++;
    }
  });
  if (counted == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  double all = 0;
  for (const std::int64_t number : featuresOf) all += static_cast<double>(number);
  std::vector<double> scale(size);  // 1 / b; by prompts q is b, so that the two thirds of b stand together
  for (const PromptCounts& own : workers) {
    for (std::size_t i = 0; i < own.totals.size(); i++) scale[i] += own.totals[i];
  }
  for (double& total : scale) total = all / total / (rows.byPrompts ? 2.0 : 1.0);

  const int unitBits = unitBitsOf(rows.prompts);
  const double units = std::ldexp(1.0, unitBits);
  std::vector<double> ownNats(features.worthOf.size());
  const Outcome heard = pool.run(rows.prompts, control, [&](std::int64_t prompt, int worker) {
    PromptCounts& own = workers[static_cast<std::size_t>(worker)];
    own.touched.clear();
    own.ratios.clear();
    const auto touch = [&](std::size_t feature, std::size_t fold) {
      std::uint32_t* const counts = own.counts.data() + feature * stride;
      if (counts[folds + 1] != static_cast<std::uint32_t>(prompt + 1)) {
        std::fill_n(counts, folds + 1, 0u);
        counts[folds + 1] = static_cast<std::uint32_t>(prompt + 1);
        own.touched.push_back(static_cast<std::int32_t>(feature));
      }
      counts[fold]++;
    };
    const auto [begin, end] = rowsOf(prompt);
    for (std::int64_t row = begin; row < end; row++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      for (std::int64_t at = firsts[row]; at < ends[row]; at++) touch(found.get()[at], rows.fold[row]);
    }
    double inText = 0;  // 1 / features of the prompt's text
    if (rows.promptsKnown) {
      const std::int64_t text = rows.promptText[prompt];
      const std::int64_t number = NgramHash::featureCount(promptTokens->count(text));
      const std::int64_t count = findIn(own, *promptTokens, text, own.found.data());
      for (std::int64_t i = 0; i < count; i++) touch(own.found[i], folds);
      inText = number > 0 ? 1.0 / static_cast<double>(number) : 0;
    }
    double trained[kMostFolds];  // 1 / features of the rows of the other folds; by prompts there are none
    const std::int64_t* const ofFolds = featuresOf.data() + static_cast<std::size_t>(prompt) * folds;
    std::int64_t ofPrompt = 0;
    for (std::size_t fold = 0; fold < folds; fold++) ofPrompt += ofFolds[fold];
    for (std::size_t fold = 0; fold < folds; fold++) {
      trained[fold] = ofPrompt > ofFolds[fold] ? 1.0 / static_cast<double>(ofPrompt - ofFolds[fold]) : 0;
    }
    for (const std::int32_t feature : own.touched) {
      const std::uint32_t* const counts = own.counts.data() + static_cast<std::size_t>(feature) * stride;
      std::uint32_t total = 0;
      for (std::size_t fold = 0; fold < folds; fold++) total += counts[fold];
      for (std::int32_t at = features.firstWorth[feature]; at < features.firstWorth[feature + 1]; at++) {
        const std::int32_t fold = features.worths[at].fold;
        const double share = (total - counts[fold]) * trained[fold] + counts[folds] * inText;
        own.ratios.push_back(1.0 + share * scale[feature]);
      }
    }
    const auto ratioCount = static_cast<std::int64_t>(own.ratios.size());
    own.ratios.resize((own.ratios.size() + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles, 1.0);
    kernels().logarithms(own.ratios.data(), ratioCount, own.ratios.data());
    const double* nats = own.ratios.data();
    for (const std::int32_t feature : own.touched) {
      for (std::int32_t at = features.firstWorth[feature]; at < features.firstWorth[feature + 1]; at++) {
        own.nats[at] = *nats;
        own.sums[at] += std::llround(*nats++ * units);
      }
    }
    for (const ReadRow& row : features.readRows) {
      if (rows.prompt[row.used] != prompt) continue;
      for (std::size_t at = row.firstEntry; at < row.endEntry; at++) ownNats[at] = own.nats[features.worthOf[at]];
    }
    for (const std::int32_t feature : own.touched) {
      const std::int32_t first = features.firstWorth[feature], behind = features.firstWorth[feature + 1];
      std::fill_n(own.nats.begin() + first, behind - first, 0.0);
    }
  });
  if (heard == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;

  std::vector<std::int64_t> sums(features.worths.size());
  for (const PromptCounts& own : workers) {
    for (std::size_t i = 0; i < own.sums.size(); i++) sums[i] += own.sums[i];
  }
  const auto others = static_cast<double>(rows.prompts - 1);
  const auto partOf = [&](std::size_t entry) {
    const double sum = static_cast<double>(sums[features.worthOf[entry]]) / units;
    return ownNats[entry] - (sum - ownNats[entry]) / others;
  };
  for (const ReadRow& row : features.readRows) {
    const std::int64_t text = rows.row[row.used];
    RowReading reading{text, scores.excess[row.used], tokens.count(text), {}, {}};
    for (std::int64_t i = 0; i < row.tokens; i++) {
      const std::size_t entry = row.firstEntry + static_cast<std::size_t>(2 * i);
      const bool isFirst = i == 0, isLast = i + 1 == reading.tokens;
      const std::size_t behind = i + 1 == row.tokens ? entry + 2 : entry + 3;
      reading.nats.push_back(partOf(entry) + partOf(entry + 1) * (isFirst ? 1.0 : 0.5) +
                             partOf(behind) * (isLast ? 1.0 : 0.5));
    }
    if (tokens.texts().bytes != nullptr) placeWords(tokens.texts(), text, row.tokens, reading.places);
    out.push_back(std::move(reading));
  }
  return Outcome::Done;
}

}  // namespace collapsar
