#include "unset_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace collapsar {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21, kLine = 64;
constexpr std::size_t kKeptFrom = 2 * kHugePage, kMostKept = std::size_t{1} << 26;

// What takeUnset asks the system for.
std::size_t blockBytes(std::size_t bytes) {
  const std::size_t alignment = bytes >= kKeptFrom ? kHugePage : kLine;
  return std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
}

struct Block {
  void* memory;
  std::size_t bytes;
  Filling filling;
};

// Large blocks that were given back, the oldest first.
class KeptBlocks {
 public:
  KeptBlocks() { kept_.reserve(kMostKept / kKeptFrom + 1); }

  void* take(std::size_t bytes, Filling filling) {
    const std::lock_guard lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->bytes != bytes || at->filling != filling) continue;
      void* const memory = at->memory;
      kept_.erase(at);
      total_ -= bytes;
      return memory;
    }
    return nullptr;
  }

  void keep(const Block& block) noexcept {
    const std::lock_guard lock(mutex_);
    if (block.bytes > kMostKept) return std::free(block.memory);
    while (total_ + block.bytes > kMostKept) {
      std::free(kept_.front().memory);
      total_ -= kept_.front().bytes;
      kept_.erase(kept_.begin());
    }
    kept_.push_back(block);
    total_ += block.bytes;
  }

 private:
  std::mutex mutex_;
  std::vector<Block> kept_;
  std::size_t total_ = 0;
};

KeptBlocks& keptBlocks() {
  static KeptBlocks* const blocks = new KeptBlocks;  // never destroyed: threads may outlive static objects
  return *blocks;
}

}  // namespace

void* takeUnset(std::size_t bytes, Filling filling) {
  const std::size_t whole = blockBytes(bytes);
  if (whole >= kKeptFrom) {
    if (void* const kept = keptBlocks().take(whole, filling)) return kept;
  }
  void* const memory = std::aligned_alloc(whole >= kKeptFrom ? kHugePage : kLine, whole);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // A wish; refusal does no harm. The allocator may give memory for which the other was wished.
  if (whole >= kKeptFrom) madvise(memory, whole, filling == Filling::Whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  return memory;
}

void giveBackUnset(void* memory, std::size_t bytes, Filling filling) noexcept {
  if (memory == nullptr) return;
  if (blockBytes(bytes) < kKeptFrom) return std::free(memory);
  keptBlocks().keep({memory, blockBytes(bytes), filling});
}

}  // namespace collapsar
