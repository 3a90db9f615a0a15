// The counts by which PyTorch knows that other processes still use GPU memory that it has handed to them.
#pragma once

#include <cstdint>
#include <string>

namespace collapsar {

// Lowers count `index` in shared memory `name` by one, as PyTorch's receiver does when it releases a tensor; at 0 the
// sender may reuse the memory. False: no such count above 0, for the sender may have ended. Source: PyTorch,
// torch/csrc/CudaIPCTypes.h and c10's RefcountedMapAllocator: 64 bytes of header, then int64 counts.
bool lowerTorchRefCounter(const std::string& name, std::int64_t index);

}  // namespace collapsar
