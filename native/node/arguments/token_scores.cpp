#include "token_scores.h"

#include <string>

namespace collapsar {
namespace {

// Packed rows lie anywhere on the token axis, by default one after the other.
std::vector<std::int64_t> packedOffsets(Napi::Value given, const std::vector<std::int64_t>& lengths,
                                        std::int64_t tokens) {
  const Napi::Env env = given.Env();
  std::vector<std::int64_t> offsets;
  if (given.IsUndefined()) {
    offsets.reserve(lengths.size());
    std::int64_t sum = 0;
    for (const std::int64_t length : lengths) {
      offsets.push_back(sum);
      // Each length is at most `tokens`, so the sum cannot overflow before this stops it.
      sum += length;
      if (sum > tokens) {
        rejectArgument(env, "lengths",
                       "row " + std::to_string(offsets.size() - 1) + " ends at token " + std::to_string(sum) +
                           ", but the packed logprobs have " + std::to_string(tokens));
      }
    }
    return offsets;
  }
  offsets = integers64(given, "options.offsets", 0, tokens);
  expectCount(env, "options.offsets", offsets.size(), static_cast<std::int64_t>(lengths.size()), "row");
  for (std::size_t row = 0; row < offsets.size(); ++row) {
    if (offsets[row] > tokens - lengths[row]) {
      rejectArgument(env, "options.offsets",
                     "row " + std::to_string(row) + " ends at token " + std::to_string(offsets[row] + lengths[row]) +
                         ", but the packed logprobs have " + std::to_string(tokens));
    }
  }
  return offsets;
}

}  // namespace

void expectTokenShape(Napi::Env env, const char* name, std::int64_t prompts, std::int64_t rows) {
  if (rows > 0 && prompts == 0)
    rejectArgument(env, name, "has rows but no prompts: each row needs a score under one prompt at least");
  if (prompts > INT32_MAX) rejectArgument(env, name, "has more than 2147483647 prompts");
}

void TokenScoresArgument::take(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  data_ = arguments.next();
  scores_.dtype = arguments.dtype();
  protectedByCaller_ = arguments.flag();
  packed_ = arguments.flag();
  scores_.prompts = arguments.integer();
  scores_.rows = arguments.integer();
  tokens_ = arguments.integer();
  scores_.promptStride = arguments.integer();
  scores_.rowStride = arguments.integer();
  scores_.tokenStride = arguments.integer();

  lengths = integers64(arguments.next(), "lengths", 0, tokens_);
  const Napi::Value offsets = arguments.next();
  if (packed_) {
    scores_.rows = static_cast<std::int64_t>(lengths.size());
    offsets_ = packedOffsets(offsets, lengths, tokens_);
  } else {
    expectCount(env, "lengths", lengths.size(), scores_.rows, "row");
    if (!offsets.IsUndefined()) rejectArgument(env, "options.offsets", "only packed logprobs [P, N] have offsets");
  }
  expectTokenShape(env, "logprobs", scores_.prompts, scores_.rows);
}

void TokenScoresArgument::hold(Job& job, const Arguments& arguments) {
  arguments.placeJob(job, data_);
  const Axis prompts{scores_.prompts, scores_.promptStride}, tokens{tokens_, scores_.tokenStride};
  if (packed_) {
    scores_.data =
        holdTensor(job, data_, "logprobs", scores_.dtype, {prompts, tokens}, protectedByCaller_, &dataBytes_);
  } else {
    scores_.data = holdTensor(job, data_, "logprobs", scores_.dtype,
                              {prompts, {scores_.rows, scores_.rowStride}, tokens}, protectedByCaller_, &dataBytes_);
  }
}

TokenScores TokenScoresArgument::scores() const {
  TokenScores scores = scores_;
  scores.lengths = lengths.data();
  scores.rowOffsets = packed_ ? offsets_.data() : nullptr;
  return scores;
}

}  // namespace collapsar
