// Results of a job that stay on its GPU. The job allocates their memory when it runs, so that it cannot be left over by
// a job that never did, and JavaScript gets their numbers if it ends well.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "node/arguments/arguments.h"
#include "node/gpu/device.h"

namespace collapsar {

// Takes an argument: whether the job's results shall stay on the GPU. It then runs there, wherever its tensors are.
bool takeOutOnDevice(Job& job, Arguments& arguments);

class DeviceResults {
 public:
  // Runs `compute`, which allocates; unless it ends well, all that it allocated is freed.
  Outcome keepIfDone(Device& device, const std::function<Outcome()>& compute);

  // Within keepIfDone: `count` elements, undefined until they are written. `number` receives what JavaScript knows them
  // by. Throws DeviceProblem.
  template <class T>
  T* allocate(Device& device, std::int64_t count, std::uint32_t* number) {
    return static_cast<T*>(allocateBytes(device, count * static_cast<std::int64_t>(sizeof(T)), number));
  }

 private:
  void* allocateBytes(Device& device, std::int64_t bytes, std::uint32_t* number);
  void free(Device& device);

  std::vector<std::uint32_t> numbers_;
};

}  // namespace collapsar
