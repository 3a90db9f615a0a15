// A phrase can only stand inside runs, and equal runs are looked at once.
#include "template_phrases.h"

#include <algorithm>

namespace collapsar {

namespace {

// Equal runs of all rows.
struct Phrase {
  const std::uint64_t* tokens;
  std::int64_t count;
  std::uint64_t hash;
  std::int64_t firstRun, endRun;  // in the runs sorted by content
  std::int64_t firstGram;         // its first 4-gram among those of all phrases
  std::uint32_t rarest;           // prompts that have its rarest 4-gram
};

struct Hold {
  std::int64_t phrase, prompts, covered;
};

class PhraseIndex {
 public:
  PhraseIndex(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, const TemplateGrams& grams,
              std::vector<TemplateRun> runs)
      : rows_(rows), runs_(std::move(runs)) {
    const auto tokensOf = [&](const TemplateRun& run) { return tokens.of(rows.row[run.row]) + run.first; };
    std::vector<std::uint64_t> hashes;
    for (const TemplateRun& run : runs_) {
      std::uint64_t of = static_cast<std::uint64_t>(run.tokens);
      for (std::int64_t i = 0; i < run.tokens; i++) of = NgramHash::pair(of, tokensOf(run)[i]);
      hashes.push_back(of);
    }
    std::vector<std::size_t> order(runs_.size());
    for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return hashes[a] < hashes[b]; });
    std::vector<TemplateRun> sorted;
    for (const std::size_t i : order) {
      const TemplateRun& run = runs_[i];
      const auto at = static_cast<std::int64_t>(sorted.size());
      sorted.push_back(run);
      if (!phrases_.empty() && phrases_.back().hash == hashes[i]) {
        phrases_.back().endRun = at + 1;
        continue;
      }
      Phrase phrase{tokensOf(run), run.tokens, hashes[i], at, at + 1, static_cast<std::int64_t>(gramOf_.size()),
                    UINT32_MAX};
      const std::size_t begin = gramOf_.size();
      std::vector<std::uint64_t> fours(static_cast<std::size_t>(NgramHash::fourCount(run.tokens)));
      hash.fours(phrase.tokens, run.tokens, fours.data());
      for (const std::uint64_t four : fours) gramOf_.push_back(grams.numbers.find(four));
      for (std::size_t at4 = begin; at4 < gramOf_.size(); at4++) {
        phrase.rarest = std::min(phrase.rarest, grams.prompts[gramOf_[at4]]);
        phraseOf_.push_back(static_cast<std::int64_t>(phrases_.size()));
      }
      phrases_.push_back(phrase);
    }
    runs_ = std::move(sorted);
    // Where each 4-gram stands.
    firstPlace_.resize(grams.prompts.size() + 1);
    for (const std::uint32_t gram : gramOf_) firstPlace_[gram + 1]++;
    for (std::size_t i = 1; i < firstPlace_.size(); i++) firstPlace_[i] += firstPlace_[i - 1];
    std::vector<std::int64_t> next(firstPlace_.begin(), firstPlace_.end() - 1);
    places_.resize(gramOf_.size());
    for (std::size_t at = 0; at < gramOf_.size(); at++) {
      places_[static_cast<std::size_t>(next[gramOf_[at]]++)] = static_cast<std::int64_t>(at);
    }
  }

  const std::vector<Phrase>& phrases() const { return phrases_; }
  const TemplateRun& firstRunOf(const Phrase& phrase) const { return runs_[static_cast<std::size_t>(phrase.firstRun)]; }

  // use(row, covered) for each run that holds the phrase: how many of its tokens lie in it. Returns false if cancelled.
  template <typename Use>
  bool eachHolder(const Phrase& phrase, const JobControl& control, Use use) const {
    // Looked for by the 4-gram that stands in the fewest places.
    std::int64_t rarest = 0;
    const auto placesOf = [&](std::int64_t at) {
      const std::uint32_t gram = gramOf_[static_cast<std::size_t>(phrase.firstGram + at)];
      return std::pair(firstPlace_[gram], firstPlace_[gram + 1]);
    };
    const std::int64_t grams = NgramHash::fourCount(phrase.count);
    const auto number = [&](std::int64_t at) { return placesOf(at).second - placesOf(at).first; };
    for (std::int64_t at = 1; at < grams; at++) {
      if (number(at) < number(rarest)) rarest = at;
    }
    const auto [begin, end] = placesOf(rarest);
    std::int64_t inPhrase = -1, covered = 0, coveredTo = 0;
    const auto flush = [&] {
      if (inPhrase < 0 || covered == 0) return;
      const Phrase& holder = phrases_[static_cast<std::size_t>(inPhrase)];
      for (std::int64_t run = holder.firstRun; run < holder.endRun; run++) {
        use(runs_[static_cast<std::size_t>(run)].row, covered);
      }
    };
    for (std::int64_t i = begin; i < end; i++) {
      if (i % 4096 == 0 && control.cancelled.load(std::memory_order_relaxed)) return false;
      const auto place = static_cast<std::size_t>(places_[static_cast<std::size_t>(i)]);
      const std::int64_t number4 = phraseOf_[place];
      if (number4 != inPhrase) {
        flush();
        inPhrase = number4;
        covered = coveredTo = 0;
      }
      const Phrase& holder = phrases_[static_cast<std::size_t>(number4)];
      const std::int64_t start = static_cast<std::int64_t>(place) - holder.firstGram - rarest;
      if (start < 0 || start + phrase.count > holder.count) continue;
      if (!std::equal(phrase.tokens, phrase.tokens + phrase.count, holder.tokens + start)) continue;
      covered += start + phrase.count - std::max(start, coveredTo);
      coveredTo = start + phrase.count;
    }
    flush();
    return true;
  }

 private:
  const UsedRows& rows_;
  std::vector<TemplateRun> runs_;  // equal ones side by side
  std::vector<Phrase> phrases_;
  std::vector<std::uint32_t> gramOf_;     // of all phrases, one after the other
  std::vector<std::int64_t> phraseOf_;    // likewise
  std::vector<std::int64_t> firstPlace_;  // [grams + 1], in places_
  std::vector<std::int64_t> places_;      // in gramOf_
};

}  // namespace

Outcome templatePhrases(const UsedRows& rows, const TokenHashes& tokens, NgramHash hash, const TemplateGrams& grams,
                        const std::vector<TemplateRun>& runs, std::vector<TemplatePhrase>& out, ThreadPool& pool,
                        JobControl& control) {
  out.clear();
  const PhraseIndex index(rows, tokens, hash, grams, runs);
  std::vector<Hold> holds;
  for (std::size_t i = 0; i < index.phrases().size(); i++) holds.push_back({static_cast<std::int64_t>(i), 0, 0});
  const auto phraseOf = [&](const Hold& hold) -> const Phrase& {
    return index.phrases()[static_cast<std::size_t>(hold.phrase)];
  };
  if (holds.size() > kMostCandidates) {
    std::nth_element(holds.begin(), holds.begin() + kMostCandidates, holds.end(), [&](const Hold& a, const Hold& b) {
      const Phrase &first = phraseOf(a), &second = phraseOf(b);
      if (first.rarest != second.rarest) return first.rarest > second.rarest;
      return first.count != second.count ? first.count > second.count : first.hash < second.hash;
    });
    holds.resize(kMostCandidates);
  }

  // Which candidate last counted each prompt, for each worker.
  std::vector<std::vector<std::int64_t>> counted(static_cast<std::size_t>(pool.threads()));
  for (auto& ofWorker : counted) ofWorker.resize(static_cast<std::size_t>(rows.prompts), -1);
  const Outcome outcome =
      pool.run(static_cast<std::int64_t>(holds.size()), control, [&](std::int64_t candidate, int worker) {
        Hold& hold = holds[static_cast<std::size_t>(candidate)];
        std::vector<std::int64_t>& seen = counted[static_cast<std::size_t>(worker)];
        index.eachHolder(phraseOf(hold), control, [&](std::int64_t row, std::int64_t covered) {
          std::int64_t& by = seen[static_cast<std::size_t>(rows.prompt[static_cast<std::size_t>(row)])];
          hold.prompts += by != candidate;
          by = candidate;
          hold.covered += covered;
        });
      });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;

  const auto better = [](const Hold& a, const Hold& b) {
    return a.prompts != b.prompts ? a.prompts > b.prompts : a.covered > b.covered;
  };
  // All that tie with the tenth: the text decides between them.
  std::sort(holds.begin(), holds.end(), better);
  std::size_t kept = std::min(kMostPhrases, holds.size());
  while (kept < holds.size() && !better(holds[kMostPhrases - 1], holds[kept])) kept++;
  std::vector<std::pair<Hold, std::string>> written;
  for (std::size_t i = 0; i < kept; i++) {
    const TemplateRun& run = index.firstRunOf(phraseOf(holds[i]));
    written.emplace_back(holds[i], tokens.written(rows.row[static_cast<std::size_t>(run.row)], run.first, run.tokens));
  }
  std::sort(written.begin(), written.end(), [&](const auto& a, const auto& b) {
    if (better(a.first, b.first) || better(b.first, a.first)) return better(a.first, b.first);
    return a.second < b.second;
  });
  written.resize(std::min(kMostPhrases, written.size()));

  std::vector<std::int64_t> coveredOf(static_cast<std::size_t>(rows.rows));
  for (const auto& [hold, text] : written) {
    std::fill(coveredOf.begin(), coveredOf.end(), 0);
    const bool whole = index.eachHolder(phraseOf(hold), control, [&](std::int64_t row, std::int64_t covered) {
      coveredOf[static_cast<std::size_t>(row)] += covered;
    });
    if (!whole) return Outcome::Cancelled;
    TemplatePhrase phrase{text, {}, phraseOf(hold).count, hold.prompts, 0};
    for (const std::int64_t row : rows.atPosition) {
      phrase.share += static_cast<double>(coveredOf[static_cast<std::size_t>(row)]) /
                      static_cast<double>(tokens.count(rows.row[static_cast<std::size_t>(row)]));
    }
    phrase.share /= static_cast<double>(rows.rows);
    const TemplateRun& run = index.firstRunOf(phraseOf(hold));
    if (const std::int64_t* const ids = tokens.texts().ids) {
      const std::int64_t* const first =
          ids + tokens.texts().offsets[rows.row[static_cast<std::size_t>(run.row)]] + run.first;
      phrase.ids.assign(first, first + run.tokens);
    }
    out.push_back(std::move(phrase));
  }
  return Outcome::Done;
}

}  // namespace collapsar
