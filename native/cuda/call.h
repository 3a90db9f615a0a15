// One operation, as the caller's CollapsarCudaControl asks: whether to go on, how far it is, how long its kernels took.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "device.h"

namespace collapsar::cuda {

class Call {
 public:
  Call(CollapsarCudaDevice& device, const CollapsarCudaControl* control, std::int64_t totalUnits);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void stopIfCancelled();
  void addDone(std::int64_t units);

  // Around the start of kernels, which are then timed if the caller asked.
  void run(const std::function<void()>& startKernels);
  // Waits for everything, and gives out the time.
  void finish();

 private:
  CollapsarCudaDevice& device_;
  CollapsarCudaControl control_{};
  std::int64_t done_ = 0, total_;
  std::vector<cudaEvent_t> begins_, ends_;
};

}  // namespace collapsar::cuda
