// One open GPU: its streams, pinned staging memory, and workspace that grows with need and is kept between calls.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "backend.h"

namespace collapsar::cuda {

// What workspace is for: one piece of device memory each.
enum class Space { InputA, InputB, Labels, Outputs, Pieces, Sums, Scratch, Count };

class Call;

}  // namespace collapsar::cuda

// In the global namespace because the C ABI names it.
struct CollapsarCudaDevice {
 public:
  explicit CollapsarCudaDevice(int index);
  ~CollapsarCudaDevice();
  CollapsarCudaDevice(const CollapsarCudaDevice&) = delete;
  CollapsarCudaDevice& operator=(const CollapsarCudaDevice&) = delete;

  int index() const { return index_; }
  int multiprocessors() const { return multiprocessors_; }
  cudaStream_t stream() const { return stream_; }            // kernels, and the copies of labels and results
  cudaStream_t inputStream() const { return inputStream_; }  // copies of tensors, beside the kernels

  // The thread's current device; first thing of every call.
  void use() const;

  // First thing of an operation: no workspace is in use.
  void beginCall();
  // At least `bytes` of device memory for one purpose until the operation ends; contents are lost when it grows.
  void* space(collapsar::cuda::Space which, std::int64_t bytes);
  // Which workspace to free.
  enum class Trim {
    Large,  // pieces that are too large to be kept between calls
    All,
    Unused  // pieces that the present operation has not asked for
  };
  void trim(Trim which);

  // Memory of another process was opened: no operation begins before `event` (null: at once), now the device's.
  void opened(void* base, cudaEvent_t event);
  // It was closed: what it alone was waiting for is waited for no longer.
  void closed(void* base);
  // Whether an event has still to come.
  bool awaitsProducer();

  void* allocate(std::int64_t bytes, const char* what);

  // Host memory -> device memory through the two staging buffers: `fill(buffer, offset, size)` writes bytes [offset,
  // offset + size); both are multiples of `granule`, but for the last size. Returns when the last copy has been
  // started.
  void uploadFilled(void* to, std::int64_t bytes, std::int64_t granule, cudaStream_t stream,
                    const std::function<void(char*, std::int64_t, std::int64_t)>& fill);
  void upload(void* to, const void* from, std::int64_t bytes, cudaStream_t stream,
              collapsar::cuda::Call* call = nullptr);
  // Waits for what the stream was given before, and for the copy.
  void download(void* to, const void* from, std::int64_t bytes, cudaStream_t stream,
                collapsar::cuda::Call* call = nullptr);

  void synchronize();

 private:
  struct Staging {
    char* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  void makeStaging();
  // Memory, for which workspace is given up if there is not enough.
  void* allocateAfter(Trim spared, std::int64_t bytes, const char* what);
  void freeSpace(int which);  // once nothing uses it

  struct Import {
    int opened = 0;
    std::vector<cudaEvent_t> awaited;
  };

  int index_, multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr, inputStream_ = nullptr;
  Staging staging_[2];
  int nextStaging_ = 0;
  void* spaces_[static_cast<int>(collapsar::cuda::Space::Count)] = {};
  std::int64_t spaceBytes_[static_cast<int>(collapsar::cuda::Space::Count)] = {};
  bool spaceInUse_[static_cast<int>(collapsar::cuda::Space::Count)] = {};
  // By base: memory that is open twice has one. Events are asked for and never put into a stream, because nothing takes
  // such a wait out again: a producer that hangs would hold up all that is asked of this device, and freeing memory.
  std::map<void*, Import> imports_;
};
