// Counts 4-grams. Sums over rows go by the rows' positions, which their content fixes.
#include "text_form.h"

#include <algorithm>

#include "engine/special_values.h"
#include "hash_shards.h"
#include "template_phrases.h"

namespace collapsar {

namespace {

struct GramCounts {
  std::vector<std::int64_t> repeats;  // [R]: occurrences beyond the first of each 4-gram
  std::vector<std::int64_t> shared;   // [R]: occurrences of 4-grams that a sibling has
};

// Counts the 4-grams of one shard's rows. Writes those that `least` prompts have, and how many have them, over the
// shard's entries, and returns how many these are.
std::int64_t countGrams(const HashShards::Entries& entries, const UsedRows& rows, std::uint32_t least,
                        GramCounts& out) {
  struct Gram {
    std::uint32_t prompts, lastRow, lastSlot;
  };
  HashNumbers numbers(entries.count);
  std::vector<Gram> grams;
  std::vector<std::uint32_t> rowsOfSlot;  // a slot for each prompt of each 4-gram
  std::vector<std::uint32_t> slotOf(static_cast<std::size_t>(entries.count));
  for (std::int64_t i = 0; i < entries.count; i++) {
    const std::uint32_t number = numbers.add(entries.hashes[i]), row = entries.texts[i];
    const bool isNew = number == grams.size();
    if (isNew) grams.push_back({0, row, 0});
    Gram& gram = grams[number];
    // Rows come prompt by prompt.
    if (isNew || rows.prompt[gram.lastRow] != rows.prompt[row]) {
      gram.prompts++;
      gram.lastSlot = static_cast<std::uint32_t>(rowsOfSlot.size());
      rowsOfSlot.push_back(1);
    } else if (gram.lastRow == row) {
      out.repeats[row]++;
    } else {
      rowsOfSlot[gram.lastSlot]++;
    }
    gram.lastRow = row;
    slotOf[static_cast<std::size_t>(i)] = gram.lastSlot;
  }
  for (std::int64_t i = 0; i < entries.count; i++) {
    out.shared[entries.texts[i]] += rowsOfSlot[slotOf[static_cast<std::size_t>(i)]] > 1;
  }
  std::int64_t found = 0;
  for (std::uint32_t number = 0; number < numbers.count(); number++) {
    if (grams[number].prompts < least) continue;
    entries.hashes[found] = numbers.hash(number);
    entries.texts[found++] = grams[number].prompts;
  }
  return found;
}

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

Outcome textForm(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, TextForm& out, ThreadPool& pool,
                 JobControl& control) {
  const auto rowCount = static_cast<std::size_t>(rows.rows);
  std::vector<std::int64_t> entries(rowCount);
  for (std::size_t row = 0; row < rowCount; row++) entries[row] = NgramHash::fourCount(tokens.count(rows.row[row]));
  TemplateGrams grams;
  GramCounts counts{std::vector<std::int64_t>(rowCount), std::vector<std::int64_t>(rowCount)};
  {
    HashShards shards;
    const Outcome filled = shards.fill(
        entries,
        [&](std::int64_t row, std::uint64_t* out4) {
          hash.fours(tokens.of(rows.row[row]), tokens.count(rows.row[row]), out4);
        },
        pool, control);
    if (filled == Outcome::Cancelled) return filled;
    const auto least = static_cast<std::uint32_t>(std::max<std::int64_t>(3, (rows.prompts + 1) / 2));
    std::vector<GramCounts> ofWorkers(static_cast<std::size_t>(pool.threads()), counts);
    std::vector<std::int64_t> kept(static_cast<std::size_t>(shards.count()));
    const Outcome counted = pool.run(shards.count(), control, [&](std::int64_t shard, int worker) {
      kept[shard] = countGrams(shards.of(shard), rows, least, ofWorkers[static_cast<std::size_t>(worker)]);
    });
    if (counted == Outcome::Cancelled) return counted;
    std::int64_t all = 0;
    for (const std::int64_t ofShard : kept) all += ofShard;
    grams.numbers.clear(all);
    for (std::int64_t shard = 0; shard < shards.count(); shard++) {
      const HashShards::Entries of = shards.of(shard);
      for (std::int64_t i = 0; i < kept[shard]; i++) grams.numbers.add(of.hashes[i]);
      grams.prompts.insert(grams.prompts.end(), of.texts, of.texts + kept[shard]);
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
  if (grams.prompts.empty()) return Outcome::Done;

  std::vector<std::vector<TemplateRun>> runsOf(rowCount);
  const Outcome found = pool.run(rows.rows, control, [&](std::int64_t row, int) {
    const std::uint64_t* const of = tokens.of(rows.row[row]);
    std::int64_t first = -1;
    for (std::int64_t i = 0; i <= entries[row]; i++) {
      std::uint64_t four;
      if (i < entries[row]) hash.fours(of + i, 4, &four);
      const bool inTemplate = i < entries[row] && grams.numbers.find(four) != HashNumbers::kNone;
      if (inTemplate && first < 0) first = i;
      if (inTemplate || first < 0) continue;
      runsOf[row].push_back({row, first, i + 3 - first});
      first = -1;
    }
  });
  if (found == Outcome::Cancelled) return found;
  out.templateShare = meanOver(
      rows, [](std::int64_t) { return true; },
      [&](std::int64_t row) {
        std::int64_t covered = 0, coveredTo = 0;
        for (const TemplateRun& run : runsOf[row]) {
          covered += run.first + run.tokens - std::max(run.first, coveredTo);
          coveredTo = run.first + run.tokens;
        }
        return ratio(covered, tokens.count(rows.row[row]));
      });
  std::vector<TemplateRun> runs;
  for (const auto& ofRow : runsOf) runs.insert(runs.end(), ofRow.begin(), ofRow.end());
  return templatePhrases(rows, tokens, hash, grams, runs, out.phrases, pool, control);
}

Outcome phraseShares(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes& phrases, double* shares,
                     ThreadPool& pool, JobControl& control) {
  const std::int64_t count = phrases.texts().count;
  std::vector<double> ofRows(static_cast<std::size_t>(rows.rows * count));
  const Outcome outcome = pool.run(rows.rows, control, [&](std::int64_t row, int) {
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
