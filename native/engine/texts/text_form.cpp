// Counts of 4-grams; sums over rows go by the rows' positions, which their content fixes.
#include "text_form.h"

#include <algorithm>

#include "engine/special_values.h"
#include "posting_lists.h"
#include "template_phrases.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileTokens = 1 << 15;

// Tiles of rows [begins[i], begins[i + 1]) with about as many tokens each.
std::vector<std::int64_t> tilesOf(const UsedRows& rows, const TokenHashes& tokens) {
  std::vector<std::int64_t> begins = {0};
  std::int64_t held = 0;
  for (std::int64_t row = 0; row < rows.rows; row++) {
    held += tokens.count(rows.row[static_cast<std::size_t>(row)]);
    if (held < kTileTokens && row + 1 < rows.rows) continue;
    begins.push_back(row + 1);
    held = 0;
  }
  return begins;
}

// Runs body(row, worker) for all used rows.
template <typename Body>
Outcome eachRow(const UsedRows& rows, const TokenHashes& tokens, ThreadPool& pool, JobControl& control, Body body) {
  const std::vector<std::int64_t> tiles = tilesOf(rows, tokens);
  return pool.run(static_cast<std::int64_t>(tiles.size()) - 1, control, [&](std::int64_t tile, int worker) {
    for (std::int64_t row = tiles[tile]; row < tiles[tile + 1]; row++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      body(row, worker);
    }
  });
}

// Writes the 4-grams all of whose pairs may come more than once, and returns their number: no other can.
std::int64_t repeatedFours(const NgramHash& hash, const std::uint64_t* tokens, std::int64_t count,
                           const HashSieve& repeatedPairs, std::uint64_t* out) {
  std::uint64_t first = NgramHash::pair(tokens[0], tokens[1]), second = NgramHash::pair(tokens[1], tokens[2]);
  std::uint64_t firstRepeats = repeatedPairs.mayRepeat(first & hash.kept);
  std::uint64_t secondRepeats = repeatedPairs.mayRepeat(second & hash.kept);
  std::int64_t found = 0;
  for (std::int64_t i = 3; i < count; i++) {
    const std::uint64_t third = NgramHash::pair(tokens[i - 1], tokens[i]);
    const std::uint64_t thirdRepeats = repeatedPairs.mayRepeat(third & hash.kept);
    out[found] = hash.four(first, third);
    found += static_cast<std::int64_t>(firstRepeats & secondRepeats & thirdRepeats);
    first = second;
    firstRepeats = secondRepeats;
    second = third;
    secondRepeats = thirdRepeats;
  }
  return found;
}

struct GramCounts {
  std::vector<std::int64_t> repeats;  // [R]: occurrences beyond the first of each 4-gram
  std::vector<std::int64_t> shared;   // [R]: occurrences of 4-grams that a sibling has
};

// The mean over used rows that `has` of value(row), by position; NaN over none.
template <typename Has, typename Value>
double meanOver(const UsedRows& rows, Has has, Value value) {
  double sum = 0;
  std::int64_t count = 0;
  for (const std::int64_t row : rows.atPosition) {
    if (!has(row)) continue;
    sum += value(row);
    count++;
  }
  return count == 0 ? kNaN : sum / static_cast<double>(count);
}

}  // namespace

Outcome textForm(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, const HashSieve& repeatedPairs,
                 TextForm& out, ThreadPool& pool, JobControl& control) {
  const auto rowCount = static_cast<std::size_t>(rows.rows);
  std::vector<std::int64_t> entries(rowCount);
  for (std::size_t row = 0; row < rowCount; row++) entries[row] = NgramHash::fourCount(tokens.count(rows.row[row]));
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint32_t> promptCounts;
  GramCounts counts{std::vector<std::int64_t>(rowCount), std::vector<std::int64_t>(rowCount)};
  {
    std::vector<TextOwner> owners(rowCount);
    for (std::size_t row = 0; row < rowCount; row++) {
      owners[row] = {static_cast<std::uint32_t>(rows.prompt[row]), UINT32_MAX};
    }
    PostingLists lists(entries, std::move(owners), PostingLists::Entries::Plain, pool.threads());
    const Outcome filled =
        lists.fill(pool, control, [&](std::int64_t row, int, std::uint64_t* hashesOut, std::uint32_t*) {
          return repeatedFours(hash, tokens.of(rows.row[row]), tokens.count(rows.row[row]), repeatedPairs, hashesOut);
        });
    if (filled == Outcome::Cancelled) return filled;

    const std::int64_t partitions = lists.partitions();
    const auto least = static_cast<std::uint32_t>(std::max<std::int64_t>(3, (rows.prompts + 1) / 2));
    // A template's 4-gram is in three texts or more, so the room of a partition is a third of its entries.
    const auto room = static_cast<std::size_t>(lists.entriesBefore(partitions) / 3 + 1);
    const std::unique_ptr<std::uint64_t[]> foundHashes(new std::uint64_t[room]);
    const std::unique_ptr<std::uint32_t[]> foundPrompts(new std::uint32_t[room]);
    std::vector<std::int64_t> foundEnds(static_cast<std::size_t>(partitions));
    std::vector<GramCounts> ofWorkers(static_cast<std::size_t>(pool.threads()), counts);
    const Outcome grouped =
        lists.group(0, partitions, pool, control, [&](std::int64_t partition, int worker, const NgramGroup& group) {
          GramCounts& mine = ofWorkers[static_cast<std::size_t>(worker)];
          std::int64_t found = lists.entriesBefore(partition) / 3;
          const std::uint32_t* const texts = group.byNgram();
          for (const Ngram* ngram = group.ngrams; ngram < group.ngrams + group.count; ngram++) {
            std::uint32_t prompts = 0;
            // Rows stand prompt by prompt, so that those of one are a run; so are the occurrences in one row.
            for (std::uint32_t at = ngram->first; at < ngram->end;) {
              const std::int32_t prompt = rows.prompt[texts[at]];
              const std::uint32_t begin = at, firstText = texts[at];
              for (; at < ngram->end && rows.prompt[texts[at]] == prompt; at++) {
                if (at > begin) mine.repeats[texts[at]] += texts[at] == texts[at - 1];
              }
              prompts++;
              if (texts[at - 1] == firstText) continue;
              for (std::uint32_t i = begin; i < at; i++) mine.shared[texts[i]]++;
            }
            if (prompts < least) continue;
            foundHashes[found] = ngram->hash | lists.hashBits(partition);
            foundPrompts[found++] = prompts;
          }
          foundEnds[static_cast<std::size_t>(partition)] = found;
        });
    if (grouped == Outcome::Cancelled) return grouped;
    for (std::int64_t partition = 0; partition < partitions; partition++) {
      for (std::int64_t at = lists.entriesBefore(partition) / 3; at < foundEnds[partition]; at++) {
        hashes.push_back(foundHashes[at]);
        promptCounts.push_back(foundPrompts[at]);
      }
    }
    for (const GramCounts& of : ofWorkers) {
      for (std::size_t row = 0; row < rowCount; row++) {
        counts.repeats[row] += of.repeats[row];
        counts.shared[row] += of.shared[row];
      }
    }
  }

  const auto ratio = [](std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  out.repetition = meanOver(
      rows, [&](std::int64_t row) { return entries[row] > 0; },
      [&](std::int64_t row) { return 1 - ratio(entries[row] - counts.repeats[row], entries[row]); });
  out.siblingNovelty = meanOver(
      rows,
      [&](std::int64_t row) {
        const std::int32_t prompt = rows.prompt[row];
        return entries[row] > 0 && rows.firstRow[prompt + 1] - rows.firstRow[prompt] > 1;
      },
      [&](std::int64_t row) { return ratio(entries[row] - counts.shared[row], entries[row]); });
  out.templateShare = 0;
  out.phrases.clear();
  if (hashes.empty()) return Outcome::Done;

  const TemplateGrams grams(std::move(hashes), std::move(promptCounts));
  // Runs are first counted, then written: threads of the pool must not allocate.
  std::vector<std::int64_t> covered(rowCount), runEnds(rowCount);
  const auto eachRun = [&](std::int64_t row, auto use) {
    const std::uint64_t* const of = tokens.of(rows.row[row]);
    std::int64_t first = -1;
    for (std::int64_t i = 0; i < entries[row]; i++) {
      std::uint64_t four;
      hash.fours(of + i, 4, &four);
      const bool inTemplate = grams.find(four) >= 0;
      if (inTemplate && first < 0) first = i;
      if (!inTemplate && first >= 0) {
        use(first, i + 3);
        first = -1;
      }
    }
    if (first >= 0) use(first, entries[row] + 3);
  };
  const Outcome counted = eachRow(rows, tokens, pool, control, [&](std::int64_t row, int) {
    std::int64_t coveredTo = 0;
    eachRun(row, [&](std::int64_t first, std::int64_t end) {
      covered[row] += end - std::max(first, coveredTo);
      coveredTo = end;
      runEnds[row]++;
    });
  });
  if (counted == Outcome::Cancelled) return counted;
  out.templateShare = meanOver(
      rows, [](std::int64_t) { return true; },
      [&](std::int64_t row) { return ratio(covered[row], tokens.count(rows.row[row])); });
  for (std::size_t row = 1; row < rowCount; row++) runEnds[row] += runEnds[row - 1];
  std::vector<TemplateRun> runs(static_cast<std::size_t>(runEnds.back()));
  const Outcome listed = eachRow(rows, tokens, pool, control, [&](std::int64_t row, int) {
    std::int64_t at = row == 0 ? 0 : runEnds[row - 1];
    eachRun(row, [&](std::int64_t first, std::int64_t end) { runs[at++] = {row, first, end - first}; });
  });
  if (listed == Outcome::Cancelled) return listed;
  return templatePhrases(rows, tokens, hash, grams, runs, out.phrases, pool, control);
}

Outcome phraseShares(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes& phrases, double* shares,
                     ThreadPool& pool, JobControl& control) {
  const std::int64_t count = phrases.texts().count;
  std::vector<double> ofRows(static_cast<std::size_t>(rows.rows * count));
  const Outcome outcome = eachRow(rows, tokens, pool, control, [&](std::int64_t row, int) {
    const std::uint64_t* const begin = tokens.of(rows.row[row]);
    const std::uint64_t* const end = begin + tokens.count(rows.row[row]);
    for (std::int64_t i = 0; i < count; i++) {
      const std::uint64_t *const phrase = phrases.of(i), *const phraseEnd = phrase + phrases.count(i);
      std::int64_t covered = 0;
      if (phrase < phraseEnd) {
        const std::uint64_t* coveredTo = begin;
        for (auto at = std::search(begin, end, phrase, phraseEnd); at < end;
             at = std::search(at + 1, end, phrase, phraseEnd)) {
          covered += at + (phraseEnd - phrase) - std::max(at, coveredTo);
          coveredTo = at + (phraseEnd - phrase);
        }
      }
      ofRows[row * count + i] = static_cast<double>(covered) / static_cast<double>(end - begin);
    }
  });
  for (std::int64_t i = 0; i < count; i++) {
    shares[i] = meanOver(
        rows, [](std::int64_t) { return true; }, [&](std::int64_t row) { return ofRows[row * count + i]; });
  }
  return outcome;
}

}  // namespace collapsar
