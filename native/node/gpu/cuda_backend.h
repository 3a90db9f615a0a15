// The CUDA backend (native/cuda/backend.h): found by its path, loaded once, and its status codes as C++ sees failures.
#pragma once

#include <string>

#include "cuda/backend.h"
#include "engine/job_control.h"
#include "node/dispatcher.h"

namespace collapsar {

// The backend's functions. A library is loaded at the first call with its path and never unloaded: CUDA leaves threads
// and exit handlers behind that live in it. Any thread. Throws DeviceProblem with reason not_loadable.
const CollapsarCudaBackend& loadCudaBackend(const std::string& path);

// Done or Cancelled; throws DeviceProblem for every other status.
Outcome outcomeOf(CollapsarCudaStatus status, const CollapsarCudaError& error);

// For calls that nobody cancels.
void expectOk(CollapsarCudaStatus status, const CollapsarCudaError& error);

// What a call of the backend shares with the job that makes it: the job's cancel flag, and its progress.
CollapsarCudaControl controlOf(Task& task);

// A struct of the ABI with its size set and all else zero.
template <typename Struct>
Struct sized() {
  Struct value{};
  value.size = sizeof(Struct);
  return value;
}

}  // namespace collapsar
