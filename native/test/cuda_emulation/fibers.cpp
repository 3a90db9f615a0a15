// The threads of a block as fibers: each runs until it waits for the others, then the next one does.
#include <stdlib.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

EmulatedIndex threadIdx, blockIdx, gridDim;

namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr unsigned kLanes = 32;

#if defined(__x86_64__)
// Switching by hand: swapcontext asks the kernel for the signal mask each time.
struct Context {
  void* stack;
};
extern "C" void collapsarSwitchFiber(void** from, void* to);
asm(R"(
.text
.globl collapsarSwitchFiber
.type collapsarSwitchFiber, @function
collapsarSwitchFiber:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size collapsarSwitchFiber, .-collapsarSwitchFiber
)");
void switchTo(Context& from, Context& to) { collapsarSwitchFiber(&from.stack, to.stack); }
void prepare(Context& context, char* memory, void (*entry)()) {
  void** top = reinterpret_cast<void**>(memory + kStackBytes);
  *--top = nullptr;  // so that the entry finds its stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  context.stack = top;
}
#else
using Context = ucontext_t;
void switchTo(Context& from, Context& to) { swapcontext(&from, &to); }
void prepare(Context& context, char* memory, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = memory;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

// What AddressSanitizer wants to know about each switch; `ending`: the stack that is left is not come back to.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;
};
void leaveFor([[maybe_unused]] Stack& from, [[maybe_unused]] const Stack& to, [[maybe_unused]] bool ending) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ending ? nullptr : &from.fake, to.bottom, to.size);
#endif
}
void arriveOn([[maybe_unused]] Stack& here, [[maybe_unused]] Stack* cameFrom) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(here.fake, cameFrom != nullptr ? &cameFrom->bottom : nullptr,
                                  cameFrom != nullptr ? &cameFrom->size : nullptr);
#endif
}

struct Warp {
  uint32_t values[2][kLanes];
  unsigned arrived = 0, turn = 0;
};

struct Block {
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<Context> contexts;
  std::vector<char> ended;
  std::vector<Stack> fiberStacks;
  Stack mainStack;
  std::vector<Warp> warps;
  Context main;
  unsigned running = 0, arrived = 0, turn = 0;
  const std::function<void()>* thread = nullptr;
};
Block block;

void yield(bool ending = false) {
  const unsigned me = threadIdx.x;
  leaveFor(block.fiberStacks[me], block.mainStack, ending);
  switchTo(block.contexts[me], block.main);
  arriveOn(block.fiberStacks[me], nullptr);
  threadIdx.x = me;
}

void runFiber() {
  arriveOn(block.fiberStacks[threadIdx.x], &block.mainStack);
  (*block.thread)();
  block.ended[threadIdx.x] = 1;
  yield(true);
  abort();  // nobody comes back
}

}  // namespace

void emulateSyncThreads() {
  const unsigned turn = block.turn;
  if (++block.arrived == block.contexts.size()) {
    block.arrived = 0;
    block.turn++;
  }
  while (block.turn == turn) yield();
}

uint32_t emulateExchange(uint32_t value, unsigned lane) {
  Warp& warp = block.warps[threadIdx.x / kLanes];
  const unsigned turn = warp.turn;
  warp.values[turn % 2][threadIdx.x % kLanes] = value;
  if (++warp.arrived == kLanes) {
    warp.arrived = 0;
    warp.turn++;
  }
  while (warp.turn == turn) yield();
  return warp.values[turn % 2][lane];
}

void emulateLaunch(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  while (block.stacks.size() < threads) block.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  gridDim.x = blocks;
  block.thread = &thread;
  for (unsigned b = 0; b < blocks; b++) {
    blockIdx.x = b;
    block.contexts.assign(threads, Context{});
    block.ended.assign(threads, 0);
    block.fiberStacks.assign(threads, Stack{});
    block.warps.assign((threads + kLanes - 1) / kLanes, Warp{});
    block.arrived = block.turn = 0;
    for (unsigned t = 0; t < threads; t++) {
      block.fiberStacks[t] = {block.stacks[t].get(), kStackBytes, nullptr};
      prepare(block.contexts[t], block.stacks[t].get(), runFiber);
    }
    for (unsigned left = threads; left > 0;) {
      left = 0;
      for (unsigned t = 0; t < threads; t++) {
        if (block.ended[t] != 0) continue;
        threadIdx.x = t;
        leaveFor(block.mainStack, block.fiberStacks[t], false);
        switchTo(block.main, block.contexts[t]);
        arriveOn(block.mainStack, nullptr);
        left += block.ended[t] == 0;
      }
    }
  }
}
