// One thread of execution with a stack of its own, which runs until it switches to another. The sanitizers are told of
// each switch: AddressSanitizer whose stack it is, ThreadSanitizer (COLLAPSAR_WATCH_RACES) that it is another thread.
#pragma once

#include <stddef.h>
#include <ucontext.h>

#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(COLLAPSAR_WATCH_RACES)
#include <sanitizer/tsan_interface.h>
#endif

namespace emulation {

constexpr size_t kStackBytes = 256 << 10;

#if defined(__x86_64__)
// Switching by hand: swapcontext asks the kernel for the signal mask each time.
struct Context {
  void* stack;
};
extern "C" void collapsarSwitchFiber(void** from, void* to);
inline void switchContext(Context& from, Context& to) { collapsarSwitchFiber(&from.stack, to.stack); }
inline void prepareContext(Context& context, char* memory, void (*entry)()) {
  void** top = reinterpret_cast<void**>(memory + kStackBytes);
  *--top = nullptr;  // so that the entry finds its stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  context.stack = top;
}
#else
using Context = ucontext_t;
inline void switchContext(Context& from, Context& to) { swapcontext(&from, &to); }
inline void prepareContext(Context& context, char* memory, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = memory;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

// What has happened before `release` has happened for whoever comes to `acquire` later. Nothing else orders fibers: not
// that one in fact ran before the other.
inline void release([[maybe_unused]] void* at) {
#if defined(COLLAPSAR_WATCH_RACES)
  __tsan_release(at);
#endif
}
inline void acquire([[maybe_unused]] void* at) {
#if defined(COLLAPSAR_WATCH_RACES)
  __tsan_acquire(at);
#endif
}

class Fiber {
 public:
  // The thread that is there already.
  static Fiber current() {
    Fiber fiber;
#if defined(COLLAPSAR_WATCH_RACES)
    fiber.watched_ = __tsan_get_current_fiber();
#endif
    return fiber;
  }
  static Fiber another() {
    Fiber fiber;
    fiber.memory_ = std::make_unique<char[]>(kStackBytes);
#if defined(COLLAPSAR_WATCH_RACES)
    fiber.watched_ = __tsan_create_fiber(0);
#endif
    return fiber;
  }
  void start(void (*entry)()) {
    bottom_ = memory_.get();
    size_ = kStackBytes;
    fake_ = nullptr;
    prepareContext(context_, memory_.get(), entry);
  }
  // `ending`: this one is not come back to until it is started again.
  void switchTo(Fiber& to, [[maybe_unused]] bool ending = false) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ending ? nullptr : &fake_, to.bottom_, to.size_);
#endif
#if defined(COLLAPSAR_WATCH_RACES)
    __tsan_switch_to_fiber(to.watched_, __tsan_switch_to_fiber_no_sync);
#endif
    switchContext(context_, to.context_);
    arrive(nullptr);
  }
  // `from`: where the stack of the thread that was there already is to be noted.
  void arrive([[maybe_unused]] Fiber* from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_, from != nullptr ? &from->bottom_ : nullptr,
                                    from != nullptr ? &from->size_ : nullptr);
#endif
  }

 private:
  Context context_{};
  std::unique_ptr<char[]> memory_;
  const void* bottom_ = nullptr;
  size_t size_ = 0;
  [[maybe_unused]] void *fake_ = nullptr, *watched_ = nullptr;
};

}  // namespace emulation
