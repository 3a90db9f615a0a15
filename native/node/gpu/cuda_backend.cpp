#include "cuda_backend.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace collapsar {
namespace {

// The names are DeviceProblem's in src/checks/errors.ts.
const char* reasonOf(CollapsarCudaStatus status) {
  switch (status) {
    case COLLAPSAR_CUDA_NO_DRIVER:
      return "no_driver";
    case COLLAPSAR_CUDA_DRIVER_TOO_OLD:
      return "driver_too_old";
    case COLLAPSAR_CUDA_NO_DEVICE:
      return "no_device";
    case COLLAPSAR_CUDA_BAD_DEVICE:
      return "bad_device";
    case COLLAPSAR_CUDA_OUT_OF_MEMORY:
      return "out_of_memory";
    case COLLAPSAR_CUDA_BAD_HANDLE:
      return "bad_handle";
    case COLLAPSAR_CUDA_DEVICE_LOST:
      return "device_lost";
    default:
      return "failed";
  }
}

const CollapsarCudaBackend& open(const std::string& path) {
  // RTLD_NOW: a library that lacks a symbol fails here, not in the middle of a job.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const problem = dlerror();
    throw DeviceProblem{"not_loadable", std::string("the CUDA backend does not load: ") +
                                            (problem != nullptr ? problem : path.c_str()) +
                                            "; npx collapsar build --cuda on builds it afresh"};
  }
  const auto entry = reinterpret_cast<CollapsarCudaEntry>(dlsym(library, COLLAPSAR_CUDA_ENTRY));
  if (entry == nullptr) {
    throw DeviceProblem{"not_loadable",
                        path + " is no CUDA backend of collapsar: it has no function " + COLLAPSAR_CUDA_ENTRY};
  }
  const CollapsarCudaBackend* const backend = entry(COLLAPSAR_CUDA_ABI_VERSION);
  if (backend == nullptr || backend->abi_version != COLLAPSAR_CUDA_ABI_VERSION ||
      backend->size < sizeof(CollapsarCudaBackend)) {
    throw DeviceProblem{"not_loadable", path + " is of another version of collapsar (this one speaks version " +
                                            std::to_string(COLLAPSAR_CUDA_ABI_VERSION) +
                                            " of the ABI): npx collapsar build --cuda on builds it afresh"};
  }
  return *backend;
}

}  // namespace

const CollapsarCudaBackend& loadCudaBackend(const std::string& path) {
  // Shared by the Node environments of the process; never destroyed, as jobs of theirs may outlive static destructors.
  static std::mutex& mutex = *new std::mutex;
  static auto& loaded = *new std::map<std::string, const CollapsarCudaBackend*>;
  const std::lock_guard lock(mutex);
  const CollapsarCudaBackend*& backend = loaded[path];
  if (backend == nullptr) backend = &open(path);
  return *backend;
}

Outcome outcomeOf(CollapsarCudaStatus status, const CollapsarCudaError& error) {
  if (status == COLLAPSAR_CUDA_OK) return Outcome::Done;
  if (status == COLLAPSAR_CUDA_CANCELLED) return Outcome::Cancelled;
  DeviceProblem problem{reasonOf(status), error.message};
  if (status == COLLAPSAR_CUDA_OUT_OF_MEMORY) {
    problem.askedBytes = error.asked_bytes;
    problem.freeBytes = error.free_bytes;
  }
  throw problem;
}

void expectOk(CollapsarCudaStatus status, const CollapsarCudaError& error) {
  if (outcomeOf(status, error) == Outcome::Cancelled) throw DeviceProblem{"failed", "cancelled by nobody"};
}

CollapsarCudaControl controlOf(Task& task) {
  CollapsarCudaControl control = sized<CollapsarCudaControl>();
  static_assert(sizeof(task.cancelFlag) == sizeof(std::int32_t) && std::atomic<std::int32_t>::is_always_lock_free);
  control.cancelled = reinterpret_cast<const volatile std::int32_t*>(&task.cancelFlag);
  control.progress = [](void* context, std::int64_t done, std::int64_t total) {
    JobControl& shared = *static_cast<JobControl*>(context);
    shared.totalUnits.store(total, std::memory_order_relaxed);
    shared.doneUnits.store(done, std::memory_order_relaxed);
  };
  control.progress_context = &task.control;
  return control;
}

}  // namespace collapsar
