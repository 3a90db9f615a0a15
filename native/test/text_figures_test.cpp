// textFigures: words, bits that nothing but the texts decides, collisions of hashes, extremes, cancelling.
#include "engine/texts/text_figures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "check.h"
#include "engine/half.h"
#include "engine/isa.h"
#include "engine/texts/words.h"
#include "random_numbers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

// A step's texts, and memory for them.
struct Step {
  std::vector<std::vector<std::int64_t>> tokens;
  std::vector<std::int32_t> groups;
  std::vector<std::string> groupIds;
  std::vector<std::vector<std::int64_t>> promptTexts;
  std::vector<std::int32_t> prompts;

  std::vector<std::int64_t> ids, offsets, idOffsets, promptIds, promptOffsets;
  std::string idBytes;

  TextRows rows() {
    ids.clear();
    offsets = {0};
    for (const auto& of : tokens) {
      ids.insert(ids.end(), of.begin(), of.end());
      offsets.push_back(static_cast<std::int64_t>(ids.size()));
    }
    idBytes.clear();
    idOffsets = {0};
    for (const std::string& id : groupIds) {
      idBytes += id;
      idOffsets.push_back(static_cast<std::int64_t>(idBytes.size()));
    }
    promptIds.clear();
    promptOffsets = {0};
    for (const auto& of : promptTexts) {
      promptIds.insert(promptIds.end(), of.begin(), of.end());
      promptOffsets.push_back(static_cast<std::int64_t>(promptIds.size()));
    }
    const auto count = [](const auto& of) { return static_cast<std::int64_t>(of.size()); };
    return {{nullptr, ids.data(), offsets.data(), count(tokens)},
            groups.data(),
            {reinterpret_cast<const std::uint8_t*>(idBytes.data()), nullptr, idOffsets.data(), count(groupIds)},
            prompts.empty() ? nullptr : prompts.data(),
            {nullptr, promptIds.data(), promptOffsets.data(), count(promptTexts)}};
  }

  void shuffle(Numbers& numbers) {
    for (std::size_t i = tokens.size() - 1; i > 0; i--) {
      const auto j = static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1));
      std::swap(tokens[i], tokens[j]);
      std::swap(groups[i], groups[j]);
      if (!prompts.empty()) std::swap(prompts[i], prompts[j]);
    }
    // Groups get other numbers, too: only their ids count.
    std::reverse(groupIds.begin(), groupIds.end());
    for (std::int32_t& group : groups) group = static_cast<std::int32_t>(groupIds.size()) - 1 - group;
  }
};

// Rows that share words with their prompt with a probability, some with a template, some twice.
Step stepOf(std::uint64_t seed, std::int64_t prompts, std::int64_t each, std::int64_t length, bool known,
            double own = 0.3) {
  Numbers numbers(seed);
  Step step;
  std::vector<std::int64_t> common;
  for (int i = 0; i < 12; i++) common.push_back(numbers.below(50));
  for (std::int64_t j = 0; j < prompts; j++) {
    step.groupIds.push_back("g" + std::to_string(j));
    std::vector<std::int64_t> text;
    for (int i = 0; i < 20; i++) text.push_back(numbers.below(400));
    for (std::int64_t k = 0; k < each + (j % 3 == 0 ? 1 : 0); k++) {
      std::vector<std::int64_t> row;
      if (numbers.uniform() < 0.5) row = common;
      const std::int64_t count = numbers.below(2 * length + 1);
      while (static_cast<std::int64_t>(row.size()) < count) {
        const double draw = numbers.uniform();
        row.push_back(draw < own ? text[static_cast<std::size_t>(numbers.below(20))]
                                 : static_cast<std::int64_t>(400 * draw * draw));
      }
      step.tokens.push_back(row);
      step.groups.push_back(static_cast<std::int32_t>(j));
      if (known) step.prompts.push_back(static_cast<std::int32_t>(j));
      if (own > 0 && k == 1 && j % 2 == 0) {
        step.tokens.push_back(row);
        step.groups.push_back(static_cast<std::int32_t>(j));
        if (known) step.prompts.push_back(static_cast<std::int32_t>(j));
      }
    }
    if (known) step.promptTexts.push_back(text);
  }
  return step;
}

constexpr TextOptions kOptions = {99, 7, {}, 1 << 28, true, 7, 20};

TextFigures figuresOf(Step& step, TextOptions options = kOptions, int threads = 1) {
  ThreadPool pool(threads);
  JobControl control;
  TextFigures figures;
  const TextRows rows = step.rows();
  CHECK(textFigures(rows, options, figures, pool, control) == Outcome::Done);
  return figures;
}

std::vector<double> numbersOf(const TextFigures& f) {
  std::vector<double> all = {f.bound.bound,
                             f.bound.error,
                             f.bound.low,
                             f.bound.high,
                             f.bound.specificity,
                             f.split.statistic,
                             f.split.pValue,
                             f.form.templateShare,
                             f.form.siblingNovelty,
                             f.form.repetition,
                             f.duplicateShare,
                             f.duplicateAcrossShare,
                             f.meanTokens,
                             static_cast<double>(f.rowsUsed),
                             static_cast<double>(f.promptsUsed)};
  all.insert(all.end(), f.bound.retrieval, f.bound.retrieval + kTextRetrievals);
  for (const auto* values : {&f.prompts.mi, &f.prompts.retrieval}) {
    all.insert(all.end(), values->begin(), values->end());
  }
  for (const TemplatePhrase& phrase : f.form.phrases) {
    all.push_back(phrase.share);
    all.push_back(static_cast<double>(phrase.prompts));
    for (const std::int64_t id : phrase.ids) all.push_back(static_cast<double>(id));
  }
  // Which of several copies is read depends on the order of rows; what is read does not.
  for (const RowReading& reading : f.readings) {
    all.push_back(reading.specificity);
    all.push_back(static_cast<double>(reading.tokens));
    all.insert(all.end(), reading.nats.begin(), reading.nats.end());
  }
  return all;
}

bool sameBits(const TextFigures& a, const TextFigures& b) {
  const std::vector<double> x = numbersOf(a), y = numbersOf(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0 &&
         a.prompts.posterior == b.prompts.posterior && a.prompts.nats == b.prompts.nats;
}

std::vector<std::string> wordsOf(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::vector<std::string> words;
  WordReader reader(bytes, bytes + text.size());
  for (const std::uint8_t *begin, *end; reader.next(begin, end);) words.emplace_back(begin, end);
  return words;
}

}  // namespace

TEST_CASE("invalid UTF-8 gives a replacement for each byte, and never reads past the end") {
  const std::string bad = "\xef\xbf\xbd";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"a\xff"
       "b",
       {"a", bad, "b"}},
      {"\xc3", {bad}},
      {"\xe4\xbd", {bad, bad}},
      {"\xed\xa0\x80x", {bad, bad, bad, "x"}},     // a surrogate
      {"\xc0\x80", {bad, bad}},                    // overlong
      {"\xf4\x90\x80\x80", {bad, bad, bad, bad}},  // past U+10FFFF
      {"\xf0\x9f\x98\x80\xf0\x9f", {"\xf0\x9f\x98\x80", bad, bad}},
      {"na\xc3\xafve\xc3", {"na\xc3\xafve", bad}},
      {"a\xe2\x80\x8b_1 \xe3\x80\x80", {"a", "_1"}},      // U+200B and U+3000 are gaps
      {"\xc3\x97\xe2\xb0\x80", {"\xc3\x97\xe2\xb0\x80"}}  // U+00D7 and U+2C00 are in words
  };
  for (const auto& [text, words] : cases) CHECK(wordsOf(text) == words);
}

// Byte by byte, as words.h says it of characters.
std::vector<std::string> wordsSlowly(const std::string& text) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(text.data());
  const std::uint8_t* const end = at + text.size();
  std::vector<std::string> found;
  bool inWord = false;
  while (at < end) {
    const words::Sequence next = words::sequenceAt(at, end);
    const words::Kind kind = next.bytes == 0 ? words::kSymbol : words::kindOf(next.character);
    const std::string piece = next.bytes == 0 ? "\xef\xbf\xbd" : std::string(at, at + next.bytes);
    at += std::max(1, next.bytes);
    if (kind != words::kGap && inWord && kind == words::kWord) found.back() += piece;
    if (kind != words::kGap && !(inWord && kind == words::kWord)) found.push_back(piece);
    inWord = kind == words::kWord;
  }
  return found;
}

TEST_CASE("words of random bytes are those that are found one character after the other, and equal ones hash alike") {
  const std::string pieces[] = {"a",
                                "Z",
                                "z",
                                "A",
                                "0",
                                "9",
                                "_",
                                "word",
                                " ",
                                "\n",
                                "@",
                                "[",
                                "`",
                                "{",
                                "/",
                                ":",
                                "^",
                                ".",
                                "\x7f",
                                "\x1f",
                                "\x11",
                                "\xff",
                                "\xc3",
                                "\xc3\xaf",
                                "\xe4\xbd\xa0",
                                "\xe3\x80\x80",
                                "Beyond8Bytes",
                                "\xf0\x9f\x98\x80"};
  Numbers numbers(17);
  ThreadPool pool(1);
  JobControl control;
  for (int draw = 0; draw < 2000; draw++) {
    std::string text;
    // Many of few kinds: long words and long gaps come as well.
    const std::uint64_t kinds = 1 + numbers.below(std::size(pieces)), first = numbers.below(std::size(pieces));
    for (std::uint64_t left = numbers.below(120); left > 0; left--) {
      text += pieces[(first + numbers.below(kinds)) % std::size(pieces)];
    }
    const std::vector<std::string> words = wordsSlowly(text);
    CHECK(wordsOf(text) == words);
    // In memory that ends where the text does.
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    const std::int64_t offsets[] = {0, static_cast<std::int64_t>(bytes.size())};
    TokenHashes hashes({bytes.data(), nullptr, offsets, 1});
    CHECK(hashes.compute(pool, control) == Outcome::Done);
    CHECK_EQUAL(static_cast<std::size_t>(hashes.count(0)), words.size());
    std::map<std::string, std::uint64_t> known;
    std::map<std::uint64_t, std::string> knownHashes;
    for (std::size_t i = 0; i < words.size(); i++) {
      std::string lower = words[i];
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
      const std::uint64_t hash = hashes.of(0)[i];
      CHECK_EQUAL(known.emplace(lower, hash).first->second, hash);
      CHECK(knownHashes.emplace(hash, lower).first->second == lower);
    }
  }
}

TEST_CASE("the key of a text is FNV-1a over its tokens, lower-case and joined by line feeds") {
  // Ids of all lengths of digits, words of 3,000 letters, texts of very different lengths, empty ones too.
  const auto keyOf = [](const std::string& bytes) {
    std::uint64_t key = kFnvStart;
    for (const char c : bytes) key = fnvOf(key, static_cast<std::uint8_t>(c));
    return key;
  };
  std::vector<std::int64_t> values = {0};
  for (std::int64_t power = 1; power <= std::int64_t{1} << 52; power *= 10) {
    for (const std::int64_t near : {power - 1, power, power + 1, power * 7}) values.push_back(near);
  }
  std::vector<std::int64_t> ids, idOffsets = {0}, textOffsets = {0};
  std::string text;
  std::vector<std::string> expected, expectedWords;
  for (std::size_t row = 0; row < 40; row++) {
    std::string joined, joinedWords;
    for (std::size_t i = 0; i < row * row % 701; i++) {
      const std::int64_t id = values[(row * 31 + i * 7) % values.size()];
      const std::string word(i % 97 == 5 ? 3000 + row : 1 + i % 9, static_cast<char>('A' + (row + i) % 26));
      std::string lower = word;
      for (char& c : lower) c = static_cast<char>(c + ('a' - 'A'));
      ids.push_back(id);
      text += word + "  ";
      joined += (i > 0 ? "\n" : "") + std::to_string(id);
      joinedWords += (i > 0 ? "\n" : "") + lower;
    }
    idOffsets.push_back(static_cast<std::int64_t>(ids.size()));
    textOffsets.push_back(static_cast<std::int64_t>(text.size()));
    expected.push_back(joined);
    expectedWords.push_back(joinedWords);
  }
  ThreadPool pool(2);
  JobControl control;
  TokenHashes ofIds({nullptr, ids.data(), idOffsets.data(), 40});
  TokenHashes ofWords({reinterpret_cast<const std::uint8_t*>(text.data()), nullptr, textOffsets.data(), 40});
  CHECK(ofIds.compute(pool, control) == Outcome::Done);
  CHECK(ofWords.compute(pool, control) == Outcome::Done);
  for (std::int64_t row = 0; row < 40; row++) {
    CHECK(ofIds.key(row) == keyOf(expected[static_cast<std::size_t>(row)]));
    CHECK(ofWords.key(row) == keyOf(expectedWords[static_cast<std::size_t>(row)]));
    CHECK(ofWords.count(row) == ofIds.count(row));
  }
}

TEST_CASE("characters at both ends of every range of words and gaps are of their kind") {
  using namespace words;
  const std::pair<std::uint32_t, Kind> cases[] = {
      {0x20, kGap},      {0x21, kSymbol},   {0x2f, kSymbol},   {0x30, kWord},      {0x39, kWord},     {0x3a, kSymbol},
      {0x40, kSymbol},   {0x41, kWord},     {0x5a, kWord},     {0x5b, kSymbol},    {0x5f, kWord},     {0x60, kSymbol},
      {0x61, kWord},     {0x7a, kWord},     {0x7b, kSymbol},   {0x7f, kGap},       {0x80, kGap},      {0xa0, kGap},
      {0xa1, kSymbol},   {0xbf, kSymbol},   {0xc0, kWord},     {0x1fff, kWord},    {0x2000, kGap},    {0x200b, kGap},
      {0x200c, kSymbol}, {0x2027, kSymbol}, {0x2028, kGap},    {0x2029, kGap},     {0x202a, kSymbol}, {0x202e, kSymbol},
      {0x202f, kGap},    {0x2030, kSymbol}, {0x205e, kSymbol}, {0x205f, kGap},     {0x2060, kSymbol}, {0x2bff, kSymbol},
      {0x2c00, kWord},   {0x2e7f, kWord},   {0x2e80, kSymbol}, {0x2fff, kSymbol},  {0x3000, kGap},    {0x3001, kSymbol},
      {0xfefe, kSymbol}, {0xfeff, kGap},    {0xff00, kSymbol}, {0x10ffff, kSymbol}};
  for (const auto& [character, kind] : cases) CHECK_EQUAL(static_cast<int>(kindOf(character)), static_cast<int>(kind));
}

TEST_CASE("the same bits for any number of threads, order of rows, instruction set and memory") {
  for (const bool known : {false, true}) {
    for (const std::int64_t each : {1, 2, 5, 9}) {
      Step step = stepOf(static_cast<std::uint64_t>(each) + (known ? 50 : 0), kSanitized ? 9 : 23, each, 30, known);
      const TextFigures expected = figuresOf(step);
      CHECK(expected.problem == (TextProblem::None));
      for (const int threads : {2, 3, 5, 16}) CHECK(sameBits(figuresOf(step, kOptions, threads), expected));
      TextOptions frugal = kOptions;
      frugal.scoreBytes = 1;
      CHECK(sameBits(figuresOf(step, frugal), expected));
      CHECK(sameBits(figuresOf(step, frugal, 2), expected));
      const std::string best = isaName(activeIsa());
      CHECK(forceIsa("baseline"));
      CHECK(sameBits(figuresOf(step, kOptions, 2), expected));
      forceIsa(best.c_str());
      Numbers numbers(3);
      for (int i = 0; i < 3; i++) {
        step.shuffle(numbers);
        CHECK(sameBits(figuresOf(step, kOptions, 2), expected));
      }
    }
  }
}

TEST_CASE("figures of prompts are the parts of the step's, and every row of the posterior adds up to 1") {
  for (const bool known : {false, true}) {
    Step step = stepOf(11, 9, 4, 25, known);
    const TextFigures found = figuresOf(step);
    const std::size_t prompts = found.prompts.mi.size();
    CHECK_EQUAL(prompts, std::size_t{9});
    double mi = 0, retrieval = 0;
    for (std::size_t j = 0; j < prompts; j++) {
      mi += found.prompts.mi[j] / 9;
      retrieval += found.prompts.retrieval[j] / 9;
      int row = 0;
      for (std::size_t p = 0; p < prompts; p++) row += found.prompts.posterior[j * prompts + p];
      CHECK(row >= 255 - 5 && row <= 255 + 5);
      const double own = float16ToFloat(found.prompts.nats[j * prompts + j]);
      CHECK(std::fabs(own - found.prompts.mi[j]) <= 0x1p-11 * std::fabs(found.prompts.mi[j]) + 1e-7);
    }
    CHECK(std::fabs(mi - found.bound.bound) < 1e-12);
    CHECK(std::fabs(retrieval - found.bound.retrieval[0]) < 1e-12);
    TextOptions plain = kOptions;
    plain.prompts = false;
    CHECK(figuresOf(step, plain).prompts.mi.empty());
  }
}

TEST_CASE("rows are read from the most generic to the most specific, and their tokens add up to them") {
  for (const bool known : {false, true}) {
    Step step = stepOf(13, 9, 4, 25, known);
    TextOptions whole = kOptions;
    whole.readings = 1000;
    whole.readTokens = 1000;
    const TextFigures found = figuresOf(step, whole, 3);
    CHECK_EQUAL(static_cast<std::int64_t>(found.readings.size()), found.rowsUsed);
    for (std::size_t i = 0; i < found.readings.size(); i++) {
      const RowReading& reading = found.readings[i];
      CHECK(i == 0 || found.readings[i - 1].specificity <= reading.specificity);
      CHECK_EQUAL(static_cast<std::int64_t>(reading.nats.size()), reading.tokens);
      double sum = 0;
      for (const double nats : reading.nats) sum += nats;
      CHECK_NEAR(sum, reading.specificity * static_cast<double>(2 * reading.tokens + 1), 1e-8);
    }
    CHECK_EQUAL(figuresOf(step).readings.size(), std::size_t{7});
    CHECK(figuresOf(step).readings[3].specificity == found.readings[3].specificity);
    CHECK(figuresOf(step).readings[4].specificity == found.readings[found.readings.size() - 3].specificity);
  }
}

TEST_CASE("n-grams that share a hash change little, and make no independent text look dependent") {
  Step step = stepOf(11, kSanitized ? 8 : 32, 6, 60, false);
  const TextFigures exact = figuresOf(step);
  // Of some 10^4 different n-grams about 30 collide in 2^24 hashes, none in 2^52.
  const TextFigures some = figuresOf(step, {99, 7, {~std::uint64_t{0} << 40}});
  CHECK(!sameBits(some, exact) || kSanitized);
  CHECK_NEAR(some.bound.bound, exact.bound.bound, 0.02);
  CHECK_NEAR(some.form.siblingNovelty, exact.form.siblingNovelty, 0.02);
  CHECK(sameBits(figuresOf(step, {99, 7, {~std::uint64_t{0} << 12}, 1 << 28, true, 7, 20}), exact));
  // 4096 hashes for all of them: the bound gets looser, never wrong.
  double sum = 0;
  const int draws = kSanitized ? 3 : 40;
  for (int draw = 0; draw < draws; draw++) {
    Step independent = stepOf(1000 + static_cast<std::uint64_t>(draw), 12, 4, 40, false, 0);
    sum += figuresOf(independent, {0, 0, {~std::uint64_t{0} << 52}}).bound.bound;
  }
  CHECK(sum / draws < 0.005);
}

TEST_CASE("words and ids of the same texts give the same figures where only equality counts") {
  Step step = stepOf(5, 8, 3, 25, true);
  const TextFigures ids = figuresOf(step);
  std::string bytes, promptBytes;
  std::vector<std::int64_t> offsets = {0}, promptOffsets = {0};
  // As words the ids stand in other keys' bytes, which are the same: ids in decimal.
  const auto append = [](std::string& to, std::vector<std::int64_t>& ends, const std::vector<std::int64_t>& of) {
    for (const std::int64_t id : of) to += " " + std::to_string(id) + "\n";
    ends.push_back(static_cast<std::int64_t>(to.size()));
  };
  for (const auto& of : step.tokens) append(bytes, offsets, of);
  for (const auto& of : step.promptTexts) append(promptBytes, promptOffsets, of);
  TextRows rows = step.rows();
  rows.texts = {reinterpret_cast<const std::uint8_t*>(bytes.data()), nullptr, offsets.data(), rows.texts.count};
  rows.promptTexts = {reinterpret_cast<const std::uint8_t*>(promptBytes.data()), nullptr, promptOffsets.data(),
                      rows.promptTexts.count};
  ThreadPool pool(2);
  JobControl control;
  TextFigures words;
  CHECK(textFigures(rows, kOptions, words, pool, control) == Outcome::Done);
  CHECK_NEAR(words.bound.bound, ids.bound.bound, 1e-9);
  CHECK_NEAR(words.split.statistic, ids.split.statistic, 1e-9);
  CHECK_EQUAL(words.split.pValue, ids.split.pValue);
  CHECK_EQUAL(words.form.templateShare, ids.form.templateShare);
  CHECK_EQUAL(words.form.phrases.size(), ids.form.phrases.size());
  for (std::size_t i = 0; i < words.form.phrases.size(); i++) {
    CHECK(words.form.phrases[i].text == ids.form.phrases[i].text);
    CHECK(words.form.phrases[i].ids.empty());
  }
}

TEST_CASE("one token a hundred thousand times, and texts of one token") {
  Step step;
  step.groupIds = {"a", "b", "c"};
  const std::size_t times = kSanitized ? 3000 : 100000;
  for (std::int32_t j = 0; j < 3; j++) {
    for (int k = 0; k < 2; k++) {
      step.tokens.emplace_back(times, j);
      step.groups.push_back(j);
    }
  }
  const TextFigures loops = figuresOf(step, kOptions, 2);
  // All that six rows allow: epsilon is a sixth at least.
  CHECK_NEAR(loops.bound.bound, std::log(3 * 5.0 / 6 + 1 / 6.0), 1e-9);
  CHECK_NEAR(loops.form.repetition, 1 - 1.0 / static_cast<double>(times - 3), 1e-12);
  CHECK_EQUAL(loops.duplicateShare, 1.0);
  for (auto& of : step.tokens) of.resize(1);
  const TextFigures single = figuresOf(step);
  CHECK_NEAR(single.bound.bound, std::log(3), 0.6);
  CHECK(std::isnan(single.form.repetition));
  CHECK(std::isnan(single.form.siblingNovelty));
  CHECK_EQUAL(single.form.templateShare, 0.0);
}

TEST_CASE("the phrases of a template, the one that most prompts hold first") {
  Step step;
  const std::vector<std::int64_t> everybody = {1, 2, 3, 4, 5, 6}, most = {11, 12, 13, 14};
  for (std::int32_t j = 0; j < 6; j++) {
    step.groupIds.push_back(std::to_string(j));
    for (int k = 0; k < 2; k++) {
      std::vector<std::int64_t> row = everybody;
      row.push_back(1000 + 10 * j + k);
      if (j < 4) row.insert(row.end(), most.begin(), most.end());
      step.tokens.push_back(row);
      step.groups.push_back(j);
    }
  }
  const TextFigures figures = figuresOf(step);
  CHECK_EQUAL(figures.form.phrases.size(), std::size_t{2});
  CHECK(figures.form.phrases[0].ids == everybody);
  CHECK(figures.form.phrases[0].text == "1 2 3 4 5 6");
  CHECK_EQUAL(figures.form.phrases[0].prompts, 6);
  CHECK_NEAR(figures.form.phrases[0].share, (4 * 6.0 / 11 + 2 * 6.0 / 7) / 6, 1e-12);
  CHECK(figures.form.phrases[1].ids == most);
  CHECK_EQUAL(figures.form.phrases[1].prompts, 4);
  CHECK_NEAR(figures.form.templateShare, (4 * 10.0 / 11 + 2 * 6.0 / 7) / 6, 1e-12);

  const std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, 3, 4, 99}, offsets = {0, 6, 8, 8, 9};
  double shares[4];
  ThreadPool pool(2);
  JobControl control;
  const TextRows rows = step.rows();
  CHECK(phraseSharesOf(rows, {nullptr, ids.data(), offsets.data(), 4}, shares, pool, control) == Outcome::Done);
  CHECK_EQUAL(shares[0], figures.form.phrases[0].share);
  CHECK_NEAR(shares[1], (4 * 2.0 / 11 + 2 * 2.0 / 7) / 6, 1e-12);
  CHECK_EQUAL(shares[2], 0.0);
  CHECK_EQUAL(shares[3], 0.0);
}

TEST_CASE("steps without figures say why") {
  Step step;
  CHECK(figuresOf(step).problem == TextProblem::TooFewPrompts);
  step.groupIds = {"a", "b"};
  step.tokens = {{1, 2}, {1, 3}, {}};
  step.groups = {0, 0, 1};
  CHECK(figuresOf(step).problem == TextProblem::TooFewPrompts);
  step.tokens[2] = {4};
  CHECK(figuresOf(step).problem == TextProblem::TooFewRows);
  step.promptTexts = {{1}, {4}};
  step.prompts = {0, 0, 1};
  const TextFigures known = figuresOf(step);
  CHECK(known.problem == TextProblem::None);
  CHECK(known.byPrompts);
  CHECK_EQUAL(known.rowsUsed, 3);
  step.prompts = {0, 1, 1};
  CHECK(figuresOf(step).problem == TextProblem::PromptsDiffer);
  step.prompts = {0, 0, -1};
  CHECK(figuresOf(step).problem == TextProblem::TooFewRows);
}

TEST_CASE("a cancelled job ends, whenever that is") {
  Step step = stepOf(9, 40, 8, kSanitized ? 30 : 200, true);
  const TextRows rows = step.rows();
  ThreadPool pool(3);
  TextFigures figures;
  JobControl before;
  before.cancelled = true;
  CHECK(textFigures(rows, kOptions, figures, pool, before) == Outcome::Cancelled);
  for (int microseconds = 0; microseconds < 20000; microseconds += kSanitized ? 5000 : 500) {
    JobControl control;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
      control.cancelled = true;
    });
    textFigures(rows, kOptions, figures, pool, control);
    canceller.join();
  }
  // What was interrupted leaves nothing behind.
  CHECK(sameBits(figuresOf(step, kOptions, 3), figuresOf(step)));
}

int main() { return runCases(); }
