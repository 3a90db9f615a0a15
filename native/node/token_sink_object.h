// The JS object behind a TokenSumsSink (src/engine/tokens/token-sums-sink.ts): a step's tokens as they come in blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/tokens/step_tokens.h"
#include "guard.h"
#include "memory_block.h"
#include "napi_setup.h"

namespace collapsar {

// A step and the memory of its sums, which a job keeps as long as it needs them.
struct StepInMemory {
  std::shared_ptr<MemoryBlock> memory;  // float64 [R, P]
  StepTokens tokens;
  // The block that was committed last: to free what it holds, an object a row, is left to the next job's thread.
  std::shared_ptr<TokenBlock> spent;
};

// A claimed block of a step, for the job that computes it.
struct ClaimedBlock {
  std::shared_ptr<StepInMemory> step;
  std::shared_ptr<TokenBlock> block;
};

class TokenSinkObject : public GuardedObject<TokenSinkObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit TokenSinkObject(const Napi::CallbackInfo& info);

  // The block that `claim` gave this number, of the sink behind this JS object.
  static ClaimedBlock claimed(Napi::Value sink, std::int64_t number);

 private:
  void open(const Napi::CallbackInfo& info);
  Napi::Value claim(const Napi::CallbackInfo& info);
  Napi::Value unclaim(const Napi::CallbackInfo& info);
  Napi::Value commit(const Napi::CallbackInfo& info);
  Napi::Value forget(const Napi::CallbackInfo& info);
  Napi::Value firstGiven(const Napi::CallbackInfo& info);
  Napi::Value missing(const Napi::CallbackInfo& info);
  Napi::Value held(const Napi::CallbackInfo& info);
  Napi::Value result(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  StepTokens& tokens() { return step_->tokens; }
  std::shared_ptr<TokenBlock> takeOut(std::int64_t number);

  std::shared_ptr<StepInMemory> step_;  // null once closed
  std::map<std::int64_t, std::shared_ptr<TokenBlock>> claimed_;
  std::int64_t next_ = 0;
};

}  // namespace collapsar
