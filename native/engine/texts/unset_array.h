// Memory for results that a job writes before it reads them.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace collapsar {

// What stands in an array: all of it is written, or gaps are left, whose pages take no memory unless they are huge.
enum class Filling { Whole, Gaps };

// Undefined bytes, aligned to a cache line; large blocks that are filled whole to huge pages. Of those that were given
// back, some tens of megabytes are kept for the next job: clearing new pages would take a tenth of a step's time.
// Throws std::bad_alloc.
void* takeUnset(std::size_t bytes, Filling filling);
void giveBackUnset(void* memory, std::size_t bytes, Filling filling) noexcept;

// `count` values, undefined.
template <typename T>
class UnsetArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  UnsetArray() = default;
  explicit UnsetArray(std::size_t count, Filling filling = Filling::Whole)
      : data_(static_cast<T*>(takeUnset(count * sizeof(T), filling)), GiveBack{count * sizeof(T), filling}) {}

  T* get() const { return data_.get(); }
  void reset() { data_.reset(); }

 private:
  struct GiveBack {
    std::size_t bytes = 0;
    Filling filling = Filling::Whole;
    void operator()(T* data) const { giveBackUnset(data, bytes, filling); }
  };
  std::unique_ptr<T, GiveBack> data_;
};

}  // namespace collapsar
