// Memory that could not be had, and how much: std::bad_alloc does not say.
#pragma once

#include <cstddef>
#include <cstdio>
#include <new>

namespace collapsar {

class MemoryShortage : public std::bad_alloc {
 public:
  explicit MemoryShortage(std::size_t bytes) noexcept : bytes_(bytes) {
    // No std::string: it would ask for memory.
    std::snprintf(words_, sizeof words_, "not enough memory: %zu bytes could not be had", bytes);
  }
  const char* what() const noexcept override { return words_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  char words_[80];
};

// How the TypeScript layer tells such a failure from those of a device.
constexpr const char* kNoMemory = "no_memory";

inline const char* wordsOf(const std::bad_alloc& error) noexcept {
  return dynamic_cast<const MemoryShortage*>(&error) == nullptr ? "not enough memory" : error.what();
}

// 0 where it is not known: what the standard library asked for.
inline std::size_t askedBytes(const std::bad_alloc& error) noexcept {
  const auto* const known = dynamic_cast<const MemoryShortage*>(&error);
  return known == nullptr ? 0 : known->bytes();
}

}  // namespace collapsar
