// The section "errors": what fails says why and leaves the device usable; cancelling, progress, and nothing to do.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_check.h"
#include "test/check.h"

namespace collapsar::test {

void errorChecks() {
  CollapsarCudaError error{};
  void* pointer = nullptr;
  CHECK_EQUAL(static_cast<int>((*device)->alloc(device->get(), std::int64_t{1} << 46, &pointer, &error)),
              static_cast<int>(COLLAPSAR_CUDA_OUT_OF_MEMORY));
  CHECK_EQUAL(error.asked_bytes, std::int64_t{1} << 46);
  CHECK(error.free_bytes > 0 && std::strlen(error.message) > 20 && error.code == COLLAPSAR_CUDA_OUT_OF_MEMORY);
  CollapsarCudaDevice* none = nullptr;
  CHECK_EQUAL(static_cast<int>((*device)->open(4711, &none, &error)), static_cast<int>(COLLAPSAR_CUDA_BAD_DEVICE));
  CHECK(none == nullptr);

  unsigned char handle[66];
  std::memset(handle, 0x5a, sizeof handle);
  CollapsarCudaIpcImport import{};
  import.size = sizeof import;
  import.handle = handle;
  import.bytes = 100;
  for (const std::uint32_t bytes : {64u, 66u, 3u}) {
    import.handle_bytes = bytes;
    CHECK_EQUAL(static_cast<int>((*device)->ipc_import(device->get(), &import, &error)),
                static_cast<int>(COLLAPSAR_CUDA_BAD_HANDLE), bytes);
  }

  // Cancelled before it starts; a wrong size; then the device still works.
  const std::vector<float> values(1000, 1.0f);
  DeviceMemory memory(*device, values.data(), 4000);
  volatile std::int32_t cancelled = 1;
  CollapsarCudaControl control{};
  control.size = sizeof control;
  control.cancelled = &cancelled;
  std::uint64_t sum = 0;
  CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<char>(), 4000, &sum, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_CANCELLED));
  control.size = 3;
  CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<char>(), 4000, &sum, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_INVALID));
  std::int64_t freeBytes = 0, totalBytes = 0;
  CHECK_EQUAL(static_cast<int>((*device)->memory_info(device->get(), &freeBytes, &totalBytes, &error)), 0);
  CHECK(freeBytes > 0 && freeBytes <= totalBytes);

  // Progress reaches the total, and no further.
  struct Seen {
    std::int64_t done = 0, total = 0;
    bool rising = true;
  } seen;
  cancelled = 0;
  control = {};
  control.size = sizeof control;
  control.cancelled = &cancelled;
  control.progress = [](void* context, std::int64_t done, std::int64_t total) {
    auto* const all = static_cast<Seen*>(context);
    all->rising = all->rising && done >= all->done;
    all->done = done;
    all->total = total;
  };
  control.progress_context = &seen;
  double logsumexp[10];
  CollapsarCudaLogits given{};
  given.size = sizeof given;
  given.dtype = 1;
  given.data = values.data();
  given.rows = 10;
  given.columns = 100;
  given.row_stride = 100;
  given.column_stride = 1;
  given.temperature = 1;
  CollapsarCudaLogitStats out{};
  out.size = sizeof out;
  out.logsumexp = logsumexp;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, &control, &error)), 0,
              error.message);
  CHECK(seen.rising && seen.done == 1000 && seen.total == 1000);
  CHECK_NEAR(logsumexp[9], 1 + std::log(100.0), 1e-6);
  given.temperature = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_INVALID));

  // No rows, no columns.
  given.temperature = 1;
  given.columns = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, nullptr, &error)), 0, error.message);
  CHECK_EQUAL(logsumexp[3], -kInfinity);
  given.rows = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, nullptr, &error)), 0, error.message);
  // Of no rows there are no targets to point at.
  out.target_logprob = logsumexp;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, nullptr, &error)), 0, error.message);
}

}  // namespace collapsar::test
