// The roofline: one pass over device memory.
#include "argument_checks.h"
#include "call.h"
#include "operations.h"
#include "read_bytes.h"

namespace collapsar::cuda {

std::uint64_t readBytes(CollapsarCudaDevice& device, const void* data, std::int64_t bytes,
                        const CollapsarCudaControl* control) {
  expect(bytes >= 0 && (data != nullptr || bytes == 0), "data: null, or a negative size");
  Call call(device, control, bytes);
  auto* const sum = static_cast<unsigned long long*>(device.space(Space::Scratch, sizeof(unsigned long long)));
  check(cudaMemsetAsync(sum, 0, sizeof *sum, device.stream()), "running kernels");
  call.run(
      [&] { check(launchReadBytes(data, bytes, sum, device.multiprocessors(), device.stream()), "running kernels"); });
  unsigned long long value = 0;
  device.download(&value, sum, sizeof value, device.stream());
  call.addDone(bytes);
  call.finish();
  return value;
}

}  // namespace collapsar::cuda
