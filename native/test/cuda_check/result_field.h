// Memory that a field of results goes to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_check.h"

namespace collapsar::test {

// Fields in host memory, or on the device; poisoned.
template <class T>
class Field {
 public:
  Field(std::int64_t count, bool onDevice) : values_(static_cast<std::size_t>(count), static_cast<T>(-777)) {
    if (onDevice) {
      memory_ = std::make_unique<DeviceMemory>(*device, values_.data(), count * static_cast<std::int64_t>(sizeof(T)));
    }
  }
  T* pointer() { return memory_ ? memory_->as<T>() : values_.data(); }
  const std::vector<T>& values() {
    if (memory_) values_ = memory_->read<T>(static_cast<std::int64_t>(values_.size()));
    return values_;
  }

 private:
  std::vector<T> values_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace collapsar::test
