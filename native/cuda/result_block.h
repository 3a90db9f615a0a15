// Fields of results that kernels wrote -> the caller's host arrays, in one copy.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "device.h"

namespace collapsar::cuda {

// Each field has `count` elements. Those of 8 bytes are added first: all are aligned, without gaps that no kernel
// writes.
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
