// The threads of a block as fibers: each runs until it waits for the others, then the next one does. Nothing may depend
// on who comes first: it changes from block to block.
#include <link.h>
#include <stdlib.h>

#include <vector>

#include "cuda_runtime.h"
#include "fiber.h"

#if defined(__x86_64__)
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
#endif

EmulatedIndex threadIdx, blockIdx, gridDim;

namespace {

using emulation::acquire;
using emulation::Fiber;
using emulation::release;

constexpr unsigned kLanes = 32;

// Threads that wait for one another. Whose wait orders memory has one place for each of two turns that follow each
// other: who goes on early must not seem to have been waited for.
struct Meeting {
  unsigned arrived = 0, turn = 0;
  char ordered[2] = {};
};

struct Warp {
  Meeting meeting;
  uint32_t values[2][kLanes];
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<char> ended;
  std::vector<Warp> warps;
  Meeting meeting;
  Fiber main;
  char started = 0, done = 0;
  unsigned threads = 0;
  const std::function<void()>* thread = nullptr;
};
Block block;

void yield(bool ending = false) {
  const unsigned me = threadIdx.x;
  block.fibers[me].switchTo(block.main, ending);
  threadIdx.x = me;
}

void runFiber() {
  const unsigned me = threadIdx.x;
  block.fibers[me].arrive(&block.main);
  acquire(&block.started);
  (*block.thread)();
  release(&block.done);
  block.ended[me] = 1;
  yield(true);
  abort();  // nobody comes back
}

// Waits until `count` threads have come: which turn it was.
unsigned meet(Meeting& meeting, unsigned count, bool ordersMemory) {
  const unsigned turn = meeting.turn;
  if (ordersMemory) release(&meeting.ordered[turn % 2]);
  if (++meeting.arrived == count) {
    meeting.arrived = 0;
    meeting.turn++;
  }
  while (meeting.turn == turn) yield();
  if (ordersMemory) acquire(&meeting.ordered[turn % 2]);
  return turn;
}

// Shared memory of all kernels: what this library has of thread_local memory.
struct SharedMemory {
  void* memory = nullptr;
  size_t bytes = 0;
};
SharedMemory sharedMemory() {
  [[maybe_unused]] static thread_local volatile char used;
  used = 1;  // before that, there is none
  SharedMemory found;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* result) {
        const auto here = reinterpret_cast<uintptr_t>(&sharedMemory);
        SharedMemory shared;
        bool isThis = false;
        for (int i = 0; i < library->dlpi_phnum; i++) {
          const auto& part = library->dlpi_phdr[i];
          if (part.p_type == PT_TLS) shared = {library->dlpi_tls_data, part.p_memsz};
          isThis = isThis || (part.p_type == PT_LOAD && here - library->dlpi_addr - part.p_vaddr < part.p_memsz);
        }
        if (isThis) *static_cast<SharedMemory*>(result) = shared;
        return 0;
      },
      &found);
  return found;
}

}  // namespace

void emulateSyncThreads() { meet(block.meeting, block.threads, true); }

void emulateSyncWarp() { meet(block.warps[threadIdx.x / kLanes].meeting, kLanes, true); }

// Exchanges order no memory, says CUDA.
uint32_t emulateExchange(uint32_t value, unsigned lane) {
  Warp& warp = block.warps[threadIdx.x / kLanes];
  warp.values[warp.meeting.turn % 2][threadIdx.x % kLanes] = value;
  return warp.values[meet(warp.meeting, kLanes, false) % 2][lane];
}

void emulateKernel(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  while (block.fibers.size() < threads) block.fibers.push_back(Fiber::another());
  block.main = Fiber::current();
  gridDim.x = blocks;
  block.threads = threads;
  block.thread = &thread;
  static unsigned launches = 0;
  const SharedMemory shared = sharedMemory();
  if (shared.memory == nullptr) abort();
  const bool backwards = launches++ % 2 != 0;
  for (unsigned b = 0; b < blocks; b++) {
    blockIdx.x = backwards ? blocks - 1 - b : b;
    memset(shared.memory, kPoison, shared.bytes);
    block.ended.assign(threads, 0);
    block.warps.assign((threads + kLanes - 1) / kLanes, Warp{});
    block.meeting = {};
    for (unsigned t = 0; t < threads; t++) block.fibers[t].start(runFiber);
    release(&block.started);
    for (unsigned left = threads, round = b; left > 0; round++) {
      left = 0;
      for (unsigned i = 0; i < threads; i++) {
        const unsigned t = round % 2 != 0 ? threads - 1 - i : i;
        if (block.ended[t] != 0) continue;
        threadIdx.x = t;
        block.main.switchTo(block.fibers[t]);
        left += block.ended[t] == 0;
      }
    }
    acquire(&block.done);
  }
}
