// Native memory that JavaScript and running jobs share: counted, and found again by its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace collapsar {

// Rule: each user of the memory (an ArrayBuffer, a job) owns a shared_ptr to its block. What JavaScript drops,
// transfers or detaches while a job runs is not taken from it.
class MemoryBlock {
 public:
  // `bytes` zeros, aligned to 64. Pages of a large block cost nothing until they are touched. Throws std::bad_alloc.
  static std::shared_ptr<MemoryBlock> allocate(std::size_t bytes);

  // The same for a job that writes every byte: what stands there is undefined. When such blocks go, up to kKeptBytes of
  // their pages are kept for the next.
  static std::shared_ptr<MemoryBlock> allocateUnset(std::size_t bytes);
  static constexpr std::size_t kKeptBytes = std::size_t{1} << 26;

  // The block that starts at `address`, from whatever thread or Node environment it came; null if it is none of ours.
  static std::shared_ptr<MemoryBlock> find(const void* address);

  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

  template <typename T>
  T* at(std::size_t byteOffset) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + byteOffset);
  }

  // Blocks and bytes alive in this process: what the leak tests look at.
  static std::int64_t liveBlocks();
  static std::int64_t liveBytes();

 private:
  MemoryBlock() = default;
  static std::shared_ptr<MemoryBlock> registered(std::shared_ptr<MemoryBlock> block);

  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;  // bytes; 0: from the heap
  bool kept_ = false;       // its pages are, when it goes
};

}  // namespace collapsar
