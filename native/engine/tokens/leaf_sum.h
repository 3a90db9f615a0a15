// The sum of one leaf of a row whose tokens come in pieces, in any order, to the bit what sumTokens makes of the whole:
// tokens that follow those before are added to 32 lanes at once; those that come ahead wait as copies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/dtype.h"
#include "engine/simd/kernel_table.h"

namespace collapsar {

class LeafSum {
 public:
  // length: tokens of the leaf, 1 to kLeafTokens.
  explicit LeafSum(std::int64_t length) : length_(length) {}

  // Tokens [from, from + count) of the leaf, side by side in memory. Each comes once. Throws std::bad_alloc.
  void add(DType dtype, const void* tokens, std::int64_t from, std::int64_t count);

  bool complete() const { return added_ == length_; }

  // Once complete.
  double sum() const { return kernels().foldTokens(lanes_); }

  // The first NaN or +inf of those that were added, counted in the leaf; -1 if there is none.
  std::int64_t firstInvalid() const { return firstInvalid_; }

  // Tokens that wait for earlier ones, and their bytes.
  std::int64_t waitingTokens() const;
  std::int64_t waitingBytes() const;

 private:
  // Shared by copies of this object.
  struct Waiting {
    DType dtype;
    std::int64_t from, count;
    std::shared_ptr<const char[]> tokens;
  };

  void append(DType dtype, const char* tokens, std::int64_t count);

  std::int64_t length_, added_ = 0, firstInvalid_ = -1;
  double lanes_[kTokenLanes] = {};
  std::vector<Waiting> waiting_;  // rising
};

}  // namespace collapsar
