// Token log-probs as arguments, which two operations share: the tensor, the rows' lengths, and where packed rows stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arguments.h"
#include "engine/tokens/sum_tokens.h"
#include "node/job.h"

namespace collapsar {

// Rejects shapes that no operation on token log-probs can take; prompts are numbered in 32 bits.
void expectTokenShape(Napi::Env env, const char* name, std::int64_t prompts, std::int64_t rows);

class TokenScoresArgument {
 public:
  // Takes data: TensorData | DeviceMemory, dtype: 0|1|2|3, protected: boolean, packed: boolean,
  //       prompts, rows, tokens, promptStride, rowStride, tokenStride: number,      rows, rowStride: 0 if packed
  //       lengths: IntegerArray, offsets: IntegerArray | undefined
  void take(Arguments& arguments);

  // In a second step, when everything else has been found right: decides where the job runs, and keeps the memory.
  void hold(Job& job, const Arguments& arguments);

  // What the engine takes; pointers into this object.
  TokenScores scores() const;

  std::int64_t prompts() const { return scores_.prompts; }
  std::int64_t rows() const { return scores_.rows; }

  // After hold(): the bytes that the scores reach.
  std::size_t dataBytes() const { return dataBytes_; }

  std::vector<std::int64_t> lengths;

 private:
  TokenScores scores_{};
  Napi::Value data_;
  bool protectedByCaller_ = false, packed_ = false;
  std::int64_t tokens_ = 0;
  std::vector<std::int64_t> offsets_;
  std::size_t dataBytes_ = 0;
};

}  // namespace collapsar
