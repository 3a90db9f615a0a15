#include "spans.h"

#include <algorithm>

namespace collapsar {

std::vector<TokenSpan>::const_iterator TokenSpans::firstEndingAfter(std::int64_t token) const {
  return std::upper_bound(spans_.begin(), spans_.end(), token,
                          [](std::int64_t value, const TokenSpan& span) { return value < span.to; });
}

std::int64_t TokenSpans::firstCommon(TokenSpan span) const {
  const auto found = firstEndingAfter(span.from);
  return found != spans_.end() && found->from < span.to ? std::max(found->from, span.from) : -1;
}

void TokenSpans::add(TokenSpan span) {
  const auto next = spans_.begin() + (firstEndingAfter(span.from) - spans_.cbegin());
  const bool joinsBefore = next != spans_.begin() && (next - 1)->to == span.from;
  const bool joinsAfter = next != spans_.end() && next->from == span.to;
  if (joinsBefore && joinsAfter) {
    (next - 1)->to = next->to;
    spans_.erase(next);
  } else if (joinsBefore) {
    (next - 1)->to = span.to;
  } else if (joinsAfter) {
    next->from = span.from;
  } else {
    spans_.insert(next, span);
  }
}

void TokenSpans::remove(TokenSpan span) {
  const auto whole = spans_.begin() + (firstEndingAfter(span.from) - spans_.cbegin());
  const TokenSpan after{span.to, whole->to};
  whole->to = span.from;
  auto next = whole + 1;
  if (whole->from == whole->to) next = spans_.erase(whole);
  if (after.from < after.to) spans_.insert(next, after);
}

TokenSpan TokenSpans::firstGap(std::int64_t length) const {
  const std::int64_t from = !spans_.empty() && spans_.front().from == 0 ? spans_.front().to : 0;
  if (from >= length) return {length, length};
  const auto next = firstEndingAfter(from);
  return {from, next == spans_.end() ? length : next->from};
}

}  // namespace collapsar
