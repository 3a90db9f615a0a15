// A step [P,R,T] whose token log-probs come in blocks: which have come, and the sums so far.
//
// A block is claimed, so that no other gives its tokens; take_block.h computes what it adds; then it is committed or
// unclaimed. All for one thread; computing on another reads the claimed block and the leaves of its rows only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block.h"
#include "engine/dtype.h"
#include "spans.h"

namespace collapsar {

// Why a block is not taken.
struct BlockRefusal {
  std::string argument, problem;
};

// What has not come of one prompt.
struct MissingTokens {
  std::int64_t rows;      // that are not complete; 0: all has come
  std::int64_t row;       // the first of them
  TokenSpan tokens;       // the first that it lacks
  bool untouched = true;  // no token of any row has come
};

// A pair (prompt, row) has the number prompt*R + row.
class StepTokens {
 public:
  // sums: [R, P] zeros, which outlive this.
  StepTokens(std::int64_t prompts, std::vector<std::int64_t> lengths, double* sums);

  std::int64_t prompts() const { return prompts_; }
  std::int64_t rows() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t length(std::int64_t row) const { return lengths_[static_cast<std::size_t>(row)]; }
  double* sums() const { return sums_; }

  // Tokens [from, to), cut to each row's length, of these rows under these prompts. Throws a BlockRefusal for tokens
  // that are claimed, or of another dtype than others of their row, or a std::bad_alloc; nothing is claimed then.
  std::shared_ptr<TokenBlock> claim(std::vector<std::int32_t> prompts, std::vector<std::int32_t> rows, TokenSpan tokens,
                                    DType dtype);
  void unclaim(const TokenBlock& block);

  // sums: [rows, prompts] of the block; those of the rows at these positions become the step's.
  void putSums(const TokenBlock& block, const std::vector<std::int32_t>& positions, const double* sums) const noexcept;

  // Takes in what was computed; the block keeps what it replaces. touched: [P*R], 1 where the block gave something; or
  // null.
  void commit(TokenBlock& block, std::uint8_t* touched) noexcept;

  // All of the pairs that are marked may come again; their marks are cleared. No block may be claimed meanwhile.
  void forget(std::uint8_t* touched);

  // The first token of a pair that has come or is coming; -1 if none is.
  std::int64_t firstGiven(std::int64_t prompt, std::int64_t row) const;
  // rows: null for all.
  MissingTokens missing(std::int64_t prompt, const std::vector<std::int32_t>* rows) const;

  // Writes NaN where nothing has come that should; rows without tokens keep 0, or what came for them.
  void markMissing();
  // The first token that is NaN or +inf, of those pairs that have one.
  const InvalidTokens& invalid() const { return invalid_; }

  // Rows that have begun and are not complete, tokens that wait for earlier ones of their leaf, and the memory of both.
  std::int64_t begunPairs() const { return begunPairs_; }
  std::int64_t waitingTokens() const { return waitingTokens_; }
  std::int64_t heldBytes() const;

 private:
  enum class State : std::uint8_t { Nothing, Part, Whole };  // what is being taken in counts as there

  // Rows that have begun lie side by side, as blocks come: memory for so many neighbouring pairs.
  static constexpr std::int64_t kChunkPairs = 8;
  struct BegunChunk {
    std::unique_ptr<BegunRow[]> rows;
    std::int64_t begun = 0;
  };

  std::int64_t pairOf(std::int64_t prompt, std::int64_t row) const { return prompt * rows() + row; }
  State& state(std::int64_t pair) { return state_[static_cast<std::size_t>(pair)]; }
  State state(std::int64_t pair) const { return state_[static_cast<std::size_t>(pair)]; }
  BegunChunk& chunkOf(std::int64_t pair) { return begun_[static_cast<std::size_t>(pair / kChunkPairs)]; }
  const BegunChunk& chunkOf(std::int64_t pair) const { return begun_[static_cast<std::size_t>(pair / kChunkPairs)]; }
  BegunRow& begun(std::int64_t pair) { return chunkOf(pair).rows[static_cast<std::size_t>(pair % kChunkPairs)]; }
  const BegunRow& begun(std::int64_t pair) const {
    return chunkOf(pair).rows[static_cast<std::size_t>(pair % kChunkPairs)];
  }
  [[noreturn]] void refuse(std::int64_t prompt, std::int64_t row, std::int64_t token) const;
  void expectFree(const TokenBlock& block) const;
  BegunRow& begin(std::int64_t pair, TokenSpan tokens, DType dtype);
  void unclaimParts(const TokenBlock& block);
  void update(std::int64_t pair, std::int64_t leaf, LeafUpdate& update, LaterLeaves& later);
  void setWhole(std::int64_t pair);
  void drop(std::int64_t pair);
  void endBegun(std::int64_t pair);

  std::int64_t prompts_;
  std::vector<std::int64_t> lengths_;
  double* sums_;
  std::vector<State> state_;
  std::vector<BegunChunk> begun_;
  InvalidTokens invalid_;
  LaterLeaves later_;
  std::int64_t wholePairs_ = 0, pairsWithTokens_ = 0;
  std::int64_t begunPairs_ = 0, openLeaves_ = 0, waitingTokens_ = 0, waitingBytes_ = 0;
  std::int64_t chunks_ = 0;
};

}  // namespace collapsar
