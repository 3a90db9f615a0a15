// A block of a step's tokens, from its claim to its commit: which tokens it has, the rows that it goes on with, and
// what computing it gives. step_tokens.h claims and commits blocks, take_block.h computes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/dtype.h"
#include "leaf_sum.h"
#include "spans.h"

namespace collapsar {

// A row under one prompt of which some tokens have come, and not all.
struct BegunRow {
  DType dtype;
  TokenSpans spans;  // that have come or are coming
  struct OpenLeaf {
    std::int64_t leaf;
    std::unique_ptr<LeafSum> sum;
  };
  std::vector<OpenLeaf> open;
  double total = 0;  // of the first `summed` leaves; those of later ones wait in StepTokens
  std::int64_t summed = 0;

  // Null if nothing of the leaf has come, or all of it.
  const LeafSum* openLeaf(std::int64_t leaf) const;
};

// By pair and leaf: sums of leaves that are complete before one in front of them.
using LaterLeaves = std::map<std::pair<std::int64_t, std::int64_t>, double>;
// By pair: its first token that is NaN or +inf.
using InvalidTokens = std::map<std::int64_t, std::int64_t>;

// What the tokens of a block make of one leaf of one row.
struct LeafUpdate {
  std::unique_ptr<LeafSum> open;  // with them; null: the leaf is complete, and this is its sum
  double sum;
  std::int64_t firstInvalid;                 // token of the row, of a complete leaf; -1: none
  std::int64_t waitingTokens, waitingBytes;  // how many more wait than before, or fewer
};

// Some prompts x some rows x neighbouring tokens, and what is computed of it.
struct TokenBlock {
  DType dtype;
  std::vector<std::int32_t> prompts, rows;  // indices in the step, each once
  std::int64_t from;                        // the first token
  std::vector<std::int32_t> whole;          // positions of the rows that have tokens, and have all of them here
  struct Part {
    std::int32_t at;      // position of the row
    std::int64_t to;      // its tokens are [from, to)
    std::int64_t leaves;  // of the parts before it
  };
  std::vector<Part> parts;       // the other rows that have tokens here
  std::int64_t partLeaves = 0;   // of all of them
  std::vector<BegunRow*> begun;  // [prompts, parts]

  std::vector<double> sums;          // [rows, prompts]
  std::vector<std::int32_t> summed;  // positions of the rows whose sums commit() takes from there
  std::vector<LeafUpdate> updates;   // [prompts, partLeaves]
  LaterLeaves later;
  InvalidTokens invalid;

  std::int64_t rowAt(std::int32_t position) const { return rows[static_cast<std::size_t>(position)]; }
  std::int64_t firstLeaf() const { return from / kLeafTokens; }
  // How many leaves tokens [from, to) are of.
  std::int64_t leavesTo(std::int64_t to) const { return (to + kLeafTokens - 1) / kLeafTokens - firstLeaf(); }
};

}  // namespace collapsar
