#include "memory_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

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

}  // namespace

std::shared_ptr<MemoryBlock> MemoryBlock::allocate(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - kAlignment) throw std::bad_alloc();
  std::shared_ptr<MemoryBlock> block(new MemoryBlock);
  if (bytes >= kMapFrom) {
    // Not reserved: a sparse block may be larger than what the machine has left.
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish; refusal does no harm
#endif
    block->data_ = memory;
    block->mapped_ = true;
  } else {
    const std::size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    void* const memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, rounded);
    block->data_ = memory;
  }
  block->size_ = bytes;
  ++blocks;
  bytesAlive += static_cast<std::int64_t>(bytes);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.blocks.emplace(block->data_, block);
  return block;
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
  if (mapped_) {
    munmap(data_, size_);
  } else {
    std::free(data_);
  }
  --blocks;
  bytesAlive -= static_cast<std::int64_t>(size_);
}

std::int64_t MemoryBlock::liveBlocks() { return blocks; }
std::int64_t MemoryBlock::liveBytes() { return bytesAlive; }

}  // namespace collapsar
