// Several small host arrays -> one piece of device memory, in one copy; and results back, in one copy.
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

// Fields of results, each `count` elements, that kernels write on the device and the caller wants on the host. Fields
// of 8 bytes an element are added first: nothing then stands between fields that no kernel writes.
class ResultBlock {
 public:
  template <class T>
  void add(T* host, T** device, std::int64_t count) {
    *device = nullptr;
    if (host == nullptr) return;
    fields_.push_back({host, reinterpret_cast<void**>(device), bytes_, count * static_cast<std::int64_t>(sizeof(T))});
    bytes_ += count * static_cast<std::int64_t>(sizeof(T));
  }
  void allocate(CollapsarCudaDevice& device) {
    if (fields_.empty()) return;
    memory_ = static_cast<char*>(device.space(Space::Outputs, bytes_));
    for (const Field& field : fields_) *field.device = memory_ + field.place;
  }
  // Waits for the kernels.
  void download(CollapsarCudaDevice& device) {
    if (fields_.empty()) return;
    std::vector<char> copy(static_cast<std::size_t>(bytes_));
    device.download(copy.data(), memory_, bytes_, device.stream());
    for (const Field& field : fields_) {
      if (field.bytes > 0) std::memcpy(field.host, copy.data() + field.place, static_cast<std::size_t>(field.bytes));
    }
  }

 private:
  struct Field {
    void* host;
    void** device;
    std::int64_t place, bytes;
  };
  std::vector<Field> fields_;
  std::int64_t bytes_ = 0;
  char* memory_ = nullptr;
};

}  // namespace collapsar::cuda
