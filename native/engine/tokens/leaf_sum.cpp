#include "leaf_sum.h"

#include <algorithm>
#include <cstring>

#include "values.h"

namespace collapsar {

void LeafSum::add(DType dtype, const void* tokens, std::int64_t from, std::int64_t count) {
  const char* const bytes = static_cast<const char*>(tokens);
  if (from != added_) {
    const std::size_t size = static_cast<std::size_t>(count) * sizeOf(dtype);
    std::shared_ptr<char[]> copy(new char[size]);
    std::memcpy(copy.get(), bytes, size);
    const auto next =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& piece) { return piece.from > from; });
    waiting_.insert(next, {dtype, from, count, std::move(copy)});
    return;
  }
  append(dtype, bytes, count);
  auto next = waiting_.begin();
  for (; next != waiting_.end() && next->from == added_; ++next) append(next->dtype, next->tokens.get(), next->count);
  waiting_.erase(waiting_.begin(), next);
}

void LeafSum::append(DType dtype, const char* tokens, std::int64_t count) {
  // The kernel starts at the first lane.
  const std::int64_t lane = added_ % kTokenLanes;
  const std::int64_t single = lane == 0 ? 0 : std::min<std::int64_t>(count, kTokenLanes - lane);
  for (std::int64_t at = 0; at < single; at++) lanes_[lane + at] += tokenAt(dtype, tokens, at);
  if (count > single) {
    const char* const rest = tokens + single * static_cast<std::int64_t>(sizeOf(dtype));
    kernels().addTokens[static_cast<int>(dtype)](rest, count - single, lanes_);
  }
  // A lane may also have overflowed: then no token is found.
  if (firstInvalid_ < 0 && std::any_of(lanes_, lanes_ + kTokenLanes, suspicious)) {
    for (std::int64_t at = 0; at < count && firstInvalid_ < 0; at++) {
      if (suspicious(tokenAt(dtype, tokens, at))) firstInvalid_ = added_ + at;
    }
  }
  added_ += count;
}

std::int64_t LeafSum::waitingTokens() const {
  std::int64_t tokens = 0;
  for (const Waiting& piece : waiting_) tokens += piece.count;
  return tokens;
}

std::int64_t LeafSum::waitingBytes() const {
  // Beside its tokens a piece has its entry here, and what counts its owners.
  constexpr std::int64_t kPiece = sizeof(Waiting) + 48;
  std::int64_t bytes = 0;
  for (const Waiting& piece : waiting_) bytes += piece.count * static_cast<std::int64_t>(sizeOf(piece.dtype)) + kPiece;
  return bytes;
}

}  // namespace collapsar
