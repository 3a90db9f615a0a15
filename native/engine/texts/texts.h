// A step's texts as a log gives them, and their tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "unset_array.h"

namespace collapsar {

// Texts [0, count), one after the other: UTF-8, or token ids. Text i is [offsets[i], offsets[i + 1]).
struct Texts {
  const std::uint8_t* bytes;  // null: `ids` has them
  const std::int64_t* ids;
  const std::int64_t* offsets;  // [count + 1]
  std::int64_t count;

  std::int64_t size() const { return count == 0 ? 0 : offsets[count] - offsets[0]; }
};

// One step's rollouts.
struct TextRows {
  Texts texts;                  // of the rows
  const std::int32_t* groups;   // [rows]: each row's group, a number of `groupIds`
  Texts groupIds;               // UTF-8, all different
  const std::int32_t* prompts;  // [rows]: each row's text in `promptTexts`, -1 where it is not known; null: none is
  Texts promptTexts;            // all different; ids where the rows are ids
};

// Tokens as hashes of 64 bits. Two words that share one count as the same word in every figure; of a million different
// words that happens to any two once in 37 million steps (2^40 pairs / 2 in 2^64).
class TokenHashes {
 public:
  // Throws std::bad_alloc.
  explicit TokenHashes(const Texts& texts);

  Outcome compute(ThreadPool& pool, JobControl& control);

  const Texts& texts() const { return texts_; }
  const std::uint64_t* of(std::int64_t text) const {
    return hashes_.get() + (texts_.offsets[text] - texts_.offsets[0]);
  }
  std::int64_t count(std::int64_t text) const { return counts_[static_cast<std::size_t>(text)]; }
  // FNV-1a 64 over the tokens, as UTF-8 joined by U+000A: the start of the key that orders rows.
  std::uint64_t key(std::int64_t text) const { return keys_[static_cast<std::size_t>(text)]; }

  bool equal(std::int64_t text, std::int64_t other) const;

  // Tokens [first, first + count) as text, joined by spaces. Cut into words again it gives the same tokens.
  std::string written(std::int64_t text, std::int64_t first, std::int64_t count) const;

  // Less than 0, 0 or more as text stands before, at or after the other: ids by number, words by their bytes.
  int compare(std::int64_t text, std::int64_t other) const;

 private:
  void computeIds(std::int64_t text, const JobControl& control);
  void computeWords(std::int64_t text, const JobControl& control);
  std::vector<std::string> words(std::int64_t text) const;

  Texts texts_;
  // Where a text's bytes or ids start: a text has no more tokens. What is not written takes no memory.
  UnsetArray<std::uint64_t> hashes_;
  std::vector<std::int64_t> counts_;
  std::vector<std::uint64_t> keys_;
};

// FNV-1a 64 (G. Fowler, L. C. Noll, P. Vo).
constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325u;
constexpr std::uint64_t fnvOf(std::uint64_t key, std::uint8_t byte) { return (key ^ byte) * 0x100000001b3u; }

// splitmix64's finaliser (G. L. Steele et al., 2014).
constexpr std::uint64_t mixed(std::uint64_t h) {
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9u;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

}  // namespace collapsar
