// How often threads other than the test's own ask for memory: one of a pool that gets none has nowhere to report it.
// Replaces operator new: for one file of a program.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace collapsar::test {

inline std::atomic<std::int64_t> allocationsElsewhere{0};
inline thread_local bool isOwnThread = false;

// The calling thread is the test's own as long as this lives.
class OwnThread {
 public:
  OwnThread() {
    isOwnThread = true;
    allocationsElsewhere = 0;
  }
  ~OwnThread() { isOwnThread = false; }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

inline void* countedMemory(std::size_t alignment, std::size_t bytes) {
  if (!isOwnThread) allocationsElsewhere++;
  // A whole number of alignments, as aligned_alloc wants it, and never none.
  void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace collapsar::test

// GCC takes one of the two for the library's where it puts only the other in line.
#define COLLAPSAR_APART __attribute__((noinline))

COLLAPSAR_APART void* operator new(std::size_t bytes) {
  return collapsar::test::countedMemory(__STDCPP_DEFAULT_NEW_ALIGNMENT__, bytes);
}
// As std::stable_sort asks; without this a sanitizer's own serves it.
COLLAPSAR_APART void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
COLLAPSAR_APART void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return collapsar::test::countedMemory(static_cast<std::size_t>(alignment), bytes);
}
COLLAPSAR_APART void operator delete(void* memory) noexcept { std::free(memory); }
COLLAPSAR_APART void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
COLLAPSAR_APART void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
COLLAPSAR_APART void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
