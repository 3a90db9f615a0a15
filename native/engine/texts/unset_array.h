// Memory for results that a job writes before it reads them.
#pragma once

#include <cstddef>
#include <memory>

namespace collapsar {

// `count` values, undefined: a page of them that is not written takes no memory. Throws std::bad_alloc.
template <typename T>
class UnsetArray {
 public:
  UnsetArray() = default;
  explicit UnsetArray(std::size_t count) : data_(new T[count]) {}

  T* get() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
};

}  // namespace collapsar
