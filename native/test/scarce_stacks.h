// Memory in which not all of a thousand threads find a stack, for tests of what happens then.
#pragma once

// A sanitizer ends the process where it gets no memory.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COLLAPSAR_SCARCE_STACKS 1

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>

#include "check.h"

namespace collapsar::test {

// As long as it lives.
class ScarceStacks {
 public:
  static constexpr int kTooMany = 1024;

  ScarceStacks() {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    CHECK_EQUAL(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit tight = before_;
    // Stacks for some of them.
    tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (std::int64_t{1} << 28));
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &tight), 0);
    void* const beyond = mmap(nullptr, std::size_t{1} << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (beyond == MAP_FAILED) return;
    munmap(beyond, std::size_t{1} << 30);
    limited_ = false;
    std::puts("skipped: memory is not limited here (an emulated processor)");
  }
  ~ScarceStacks() { CHECK_EQUAL(setrlimit(RLIMIT_AS, &before_), 0); }
  ScarceStacks(const ScarceStacks&) = delete;
  ScarceStacks& operator=(const ScarceStacks&) = delete;

  bool limited() const { return limited_; }

 private:
  rlimit before_{};
  bool limited_ = true;
};

}  // namespace collapsar::test
#endif
