#include "memory_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "memory_shortage.h"

namespace collapsar {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMapFrom = std::size_t{1} << 20;
constexpr std::size_t kHugePage = std::size_t{1} << 21;

std::atomic<std::int64_t> blocks{0};
std::atomic<std::int64_t> bytesAlive{0};

struct Registry {
  std::mutex mutex;
  std::map<const void*, std::weak_ptr<MemoryBlock>> blocks;
};

// Never destroyed: Node frees external ArrayBuffers after static destructors may have run.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Pages of blocks that went, the longest kept first: touching new ones takes as long as a job on short rows.
class KeptPages {
 public:
  struct Pages {
    void* memory;
    std::size_t bytes;
  };

  KeptPages() { all_.reserve(kKeptBytes / kMapFrom + 1); }

  // The smallest that are enough, but not much more than that; null if there are none.
  Pages take(std::size_t wanted) {
    const std::lock_guard lock(mutex_);
    auto best = all_.end();
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      if (at->bytes < wanted || at->bytes - wanted > wanted / 4) continue;
      if (best == all_.end() || at->bytes < best->bytes) best = at;
    }
    if (best == all_.end()) return {nullptr, 0};
    const Pages pages = *best;
    all_.erase(best);
    bytes_ -= pages.bytes;
    return pages;
  }

  void keep(Pages pages) {
    const std::lock_guard lock(mutex_);
    all_.push_back(pages);
    bytes_ += pages.bytes;
    while (bytes_ > kKeptBytes) {
      munmap(all_.front().memory, all_.front().bytes);
      bytes_ -= all_.front().bytes;
      all_.erase(all_.begin());
    }
  }

 private:
  static constexpr std::size_t kKeptBytes = MemoryBlock::kKeptBytes;
  std::mutex mutex_;
  std::vector<Pages> all_;
  std::size_t bytes_ = 0;
};

KeptPages& keptPages() {
  static KeptPages* const instance = new KeptPages;
  return *instance;
}

void* mapPages(std::size_t bytes) {
  // Not reserved: a sparse block may be larger than what the machine has left.
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw MemoryShortage(bytes);
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish; refusal does no harm
#endif
  return memory;
}

}  // namespace

std::shared_ptr<MemoryBlock> MemoryBlock::registered(std::shared_ptr<MemoryBlock> block) {
  ++blocks;
  bytesAlive += static_cast<std::int64_t>(block->size_);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.blocks.emplace(block->data_, block);
  return block;
}

std::shared_ptr<MemoryBlock> MemoryBlock::allocate(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - kAlignment) throw MemoryShortage(bytes);
  std::shared_ptr<MemoryBlock> block(new MemoryBlock);
  if (bytes >= kMapFrom) {
    block->data_ = mapPages(bytes);
    block->mapped_ = bytes;
  } else {
    const std::size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    void* const memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) throw MemoryShortage(bytes);
    std::memset(memory, 0, rounded);
    block->data_ = memory;
  }
  block->size_ = bytes;
  return registered(std::move(block));
}

std::shared_ptr<MemoryBlock> MemoryBlock::allocateUnset(std::size_t bytes) {
  if (bytes < kMapFrom || bytes > kKeptBytes) return allocate(bytes);
  std::shared_ptr<MemoryBlock> block(new MemoryBlock);
  const KeptPages::Pages pages = keptPages().take(bytes);
  block->data_ = pages.memory != nullptr ? pages.memory : mapPages(bytes);
  block->mapped_ = pages.memory != nullptr ? pages.bytes : bytes;
  block->size_ = bytes;
  block->kept_ = true;
  return registered(std::move(block));
}

std::shared_ptr<MemoryBlock> MemoryBlock::find(const void* address) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto entry = known.blocks.find(address);
  return entry == known.blocks.end() ? nullptr : entry->second.lock();
}

MemoryBlock::~MemoryBlock() {
  if (data_ == nullptr) return;
  {
    // Before the memory goes: its address may be handed out again at once.
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    known.blocks.erase(data_);
  }
  if (kept_) {
    keptPages().keep({data_, mapped_});
  } else if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
  --blocks;
  bytesAlive -= static_cast<std::int64_t>(size_);
}

std::int64_t MemoryBlock::liveBlocks() { return blocks; }
std::int64_t MemoryBlock::liveBytes() { return bytesAlive; }

}  // namespace collapsar
