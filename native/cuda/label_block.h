// Several small host arrays -> one piece of device memory, in one copy.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "device.h"

namespace collapsar::cuda {

class LabelBlock {
 public:
  // Where the array will stand; to be given to at() after upload().
  template <class T>
  std::int64_t add(const T* values, std::int64_t count) {
    const std::int64_t place = static_cast<std::int64_t>((bytes_.size() + 15) / 16 * 16);
    bytes_.resize(static_cast<std::size_t>(place) + static_cast<std::size_t>(count) * sizeof(T));
    if (count > 0) std::memcpy(bytes_.data() + place, values, static_cast<std::size_t>(count) * sizeof(T));
    return place;
  }
  void upload(CollapsarCudaDevice& device) {
    memory_ = static_cast<char*>(device.space(Space::Labels, static_cast<std::int64_t>(bytes_.size()) + 16));
    device.upload(memory_, bytes_.data(), static_cast<std::int64_t>(bytes_.size()), device.stream());
  }
  template <class T>
  const T* at(std::int64_t place) const {
    return reinterpret_cast<const T*>(memory_ + place);
  }

 private:
  std::vector<char> bytes_;
  char* memory_ = nullptr;
};

}  // namespace collapsar::cuda
