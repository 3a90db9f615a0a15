// Which tokens of one row have come: disjoint spans in rising order, neighbours merged.
#pragma once

#include <cstdint>
#include <vector>

namespace collapsar {

// Tokens [from, to).
struct TokenSpan {
  std::int64_t from, to;
};

class TokenSpans {
 public:
  bool empty() const { return spans_.empty(); }
  std::int64_t first() const { return spans_.front().from; }

  // The first token of `span` that is in one of these; -1 if none is.
  std::int64_t firstCommon(TokenSpan span) const;

  // Adds a span of which nothing is there yet.
  void add(TokenSpan span);

  // Takes out a span all of which stands in one of these.
  void remove(TokenSpan span);

  // The first run of [0, length) that is in none of these; empty at `length` if all of it is.
  TokenSpan firstGap(std::int64_t length) const;

 private:
  std::vector<TokenSpan>::const_iterator firstEndingAfter(std::int64_t token) const;

  std::vector<TokenSpan> spans_;
};

}  // namespace collapsar
