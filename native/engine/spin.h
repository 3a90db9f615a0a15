// Waits awake for what comes soon: a sleeping thread takes 5 µs to return (50 in a virtual machine), and a system call.
#pragma once

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace collapsar {

constexpr std::chrono::microseconds kSpin{100};

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `ready`, which must be quick and safe to ask from any thread, has become true within kSpin. On a machine with
// one core whoever could make it so waits for this very thread: there it is asked once.
template <class Ready>
bool spinUntil(const Ready& ready) {
  if (ready()) return true;
  static const bool alone = std::thread::hardware_concurrency() == 1;
  if (alone) return false;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; i++) {
      relax();
      if (ready()) return true;
    }
    std::this_thread::yield();  // to a thread that was woken on this core
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace collapsar
