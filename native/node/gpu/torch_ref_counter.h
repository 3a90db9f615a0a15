// The counts by which PyTorch knows that other processes still use GPU memory that it has handed to them.
#pragma once

#include <cstdint>
#include <string>

namespace collapsar {

// Lowers count `index` in the shared memory `name` by one, as PyTorch's own receiver does when it lets go of a tensor;
// at 0 the sender may use the memory again. The sender may have ended and taken the counts with it, so that a failure
// is nobody's problem: false says that there was no such count above 0.
// Source: PyTorch, torch/csrc/CudaIPCTypes.h and c10's RefcountedMapAllocator: 64 bytes of header, then int64 counts.
bool lowerTorchRefCounter(const std::string& name, std::int64_t index);

}  // namespace collapsar
