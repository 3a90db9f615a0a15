#include "torch_ref_counter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace collapsar {
namespace {

constexpr std::int64_t kHeaderBytes = 64;

}  // namespace

bool lowerTorchRefCounter(const std::string& name, std::int64_t index) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return false;
  const std::int64_t end = kHeaderBytes + (index + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  struct stat status {};
  void* memory = MAP_FAILED;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= end) {
    memory = mmap(nullptr, static_cast<std::size_t>(end), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (memory == MAP_FAILED) return false;
  std::int64_t* const count = reinterpret_cast<std::int64_t*>(static_cast<char*>(memory) + kHeaderBytes) + index;
  // Atomic, as another receiver may count at the same time; never below 0, which the sender would not expect.
  std::int64_t now = __atomic_load_n(count, __ATOMIC_ACQUIRE);
  while (now > 0 && !__atomic_compare_exchange_n(count, &now, now - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  munmap(memory, static_cast<std::size_t>(end));
  return now > 0;
}

}  // namespace collapsar
