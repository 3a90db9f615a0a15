// Which columns are equivalent: the columns of each signature, rising. For the CPU and the GPU's backend.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace collapsar {

class ColumnsBySignature {
 public:
  // signature: [columns], each in [0, columns); null: each column is its own only equal. Ends early, of no use, if
  // cancelled.
  ColumnsBySignature(const std::int32_t* signature, std::int64_t columns, const std::atomic<bool>* cancelled = nullptr)
      : signature_(signature) {
    if (signature == nullptr) return;
    constexpr std::int64_t kBetweenLooks = 1 << 18;
    const auto forEachColumn = [&](const auto& take) {
      for (std::int64_t c = 0; c < columns;) {
        if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) return;
        for (const std::int64_t end = std::min(columns, c + kBetweenLooks); c < end; c++) take(c);
      }
    };
    starts_.assign(static_cast<std::size_t>(columns) + 1, 0);
    columns_.resize(static_cast<std::size_t>(columns));
    forEachColumn([&](std::int64_t c) { starts_[at(signature[c]) + 1]++; });
    forEachColumn(
        [&](std::int64_t s) { starts_[static_cast<std::size_t>(s) + 1] += starts_[static_cast<std::size_t>(s)]; });
    std::vector<std::int32_t> next = starts_;
    forEachColumn([&](std::int64_t c) {
      columns_[static_cast<std::size_t>(next[at(signature[c])]++)] = static_cast<std::int32_t>(c);
    });
  }

  // The columns equivalent to *own, which must outlive the result.
  const std::int32_t* begin(const std::int32_t* own) const {
    return signature_ == nullptr ? own : columns_.data() + starts_[at(signature_[*own])];
  }
  std::int64_t size(std::int32_t own) const {
    if (signature_ == nullptr) return 1;
    const std::size_t s = at(signature_[own]);
    return starts_[s + 1] - starts_[s];
  }

  // columns()[starts()[s] .. starts()[s + 1]) have signature s. Both are empty without signatures.
  const std::vector<std::int32_t>& starts() const { return starts_; }
  const std::vector<std::int32_t>& columns() const { return columns_; }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

  const std::int32_t* signature_;
  std::vector<std::int32_t> starts_, columns_;
};

}  // namespace collapsar
