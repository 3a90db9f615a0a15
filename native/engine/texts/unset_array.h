// Memory for results that a job writes before it reads them.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace collapsar {

// Undefined bytes, aligned to a cache line; large blocks to huge pages. Of those that were given back, some tens of
// megabytes are kept for the next job: clearing new pages would take a tenth of a step's time. Throws std::bad_alloc.
void* takeUnset(std::size_t bytes);
void giveBackUnset(void* memory, std::size_t bytes) noexcept;

// `count` values, undefined. Pages that nothing touches take no memory.
template <typename T>
class UnsetArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  UnsetArray() = default;
  explicit UnsetArray(std::size_t count)
      : data_(static_cast<T*>(takeUnset(count * sizeof(T))), GiveBack{count * sizeof(T)}) {}

  T* get() const { return data_.get(); }
  void reset() { data_.reset(); }

 private:
  struct GiveBack {
    std::size_t bytes = 0;
    void operator()(T* data) const { giveBackUnset(data, bytes); }
  };
  std::unique_ptr<T, GiveBack> data_;
};

}  // namespace collapsar
