// Which columns are equivalent: the columns of each signature, rising. For the CPU and the GPU's backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace collapsar {

class ColumnsBySignature {
 public:
  // signature: [columns], each in [0, columns), or null: every column is equivalent to itself alone.
  ColumnsBySignature(const std::int32_t* signature, std::int64_t columns) : signature_(signature) {
    if (signature == nullptr) return;
    starts_.assign(static_cast<std::size_t>(columns) + 1, 0);
    columns_.resize(static_cast<std::size_t>(columns));
    for (std::int64_t c = 0; c < columns; c++) starts_[at(signature[c]) + 1]++;
    for (std::size_t s = 0; s < static_cast<std::size_t>(columns); s++) starts_[s + 1] += starts_[s];
    std::vector<std::int32_t> next = starts_;
    for (std::int64_t c = 0; c < columns; c++) {
      columns_[static_cast<std::size_t>(next[at(signature[c])]++)] = static_cast<std::int32_t>(c);
    }
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
