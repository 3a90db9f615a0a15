// The section "memory": copies to the device and back, and readBytes at any offset and length.
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_check.h"
#include "test/check.h"
#include "test/random_numbers.h"

namespace collapsar::test {
namespace {

std::uint64_t plainSum(const unsigned char* data, std::int64_t bytes) {
  std::uint64_t sum = 0;
  std::int64_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum += word;
  }
  for (; at < bytes; at++) sum += data[at];
  return sum;
}

}  // namespace

void memoryChecks() {
  Numbers numbers(options.seed * 1000 + 5);
  const std::int64_t bytes = options.quick ? 300000 : 50000000;
  std::vector<unsigned char> data(static_cast<std::size_t>(bytes));
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(numbers.bits());
  DeviceMemory memory(*device, data.data(), bytes);
  CHECK(memory.read<unsigned char>(bytes) == data);
  for (const std::int64_t offset : {0, 1, 2, 3, 7, 8, 9, 15, 16, 100}) {
    for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, std::int64_t{8},
                                    std::int64_t{23}, std::int64_t{100}, std::int64_t{4095}, bytes - 200}) {
      std::uint64_t sum = 0;
      double seconds = -1;
      CollapsarCudaControl control{};
      control.size = sizeof control;
      control.kernel_seconds = &seconds;
      CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<unsigned char>() + offset, size, &sum,
                                                         &control, &device->error)),
                  0);
      CHECK_EQUAL(sum, plainSum(data.data() + offset, size), "offset ", offset, " size ", size);
      CHECK(seconds >= 0);
    }
  }
}

}  // namespace collapsar::test
