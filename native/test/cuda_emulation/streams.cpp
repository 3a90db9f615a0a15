// Streams and events. What is put into a stream is done at the latest moment that CUDA allows, when somebody waits for
// it, or at any moment before: by chance, the same one in every run. Who reads a result too early, or gives memory back
// that is still to be used, is found out.
#include <unistd.h>

#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "settings.h"

namespace {

struct Queue {
  std::deque<std::function<void()>> work;
  uint64_t put = 0, done = 0;

  void runUntil(uint64_t number) {
    while (done < number) {
      const std::function<void()> next = std::move(work.front());
      work.pop_front();
      next();
      done++;
    }
  }
};

std::vector<std::shared_ptr<Queue>>& queues() {
  static std::vector<std::shared_ptr<Queue>> all;
  return all;
}

// A stream may stay behind the others for long.
void runSomething() {
  static std::minstd_rand chance(1);
  static unsigned idle = 0;
  const std::vector<std::shared_ptr<Queue>>& all = queues();
  if (all.empty() || idle-- > 0) return;
  idle = static_cast<unsigned>(chance() % 4 == 0 ? chance() % 100 : chance() % 3);
  Queue& queue = *all[chance() % all.size()];
  queue.runUntil(chance() % 2 == 0 ? queue.put : queue.done + (queue.work.empty() ? 0 : 1));
}

}  // namespace

struct EmulatedStream {
  std::shared_ptr<Queue> queue;
};

struct EmulatedEvent {
  struct Record {
    std::shared_ptr<Queue> queue;  // null: never recorded
    uint64_t number = 0;
    std::chrono::steady_clock::time_point time;
  };
  std::shared_ptr<Record> last = std::make_shared<Record>();
  std::string file = {};  // another process's event: a file that is there when it has happened

  void wait() const {
    if (last->queue != nullptr) last->queue->runUntil(last->number);
  }
};

namespace {

cudaError_t put(cudaStream_t stream, std::function<void()> work) {
  const EmulationLock lock;
  stream->queue->work.push_back(std::move(work));
  stream->queue->put++;
  runSomething();
  return cudaSuccess;
}

}  // namespace

void emulateLaunch(unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> thread) {
  const emulation::Settings settings = emulation::settings();
  if (settings.fail == "wrong") return;
  put(stream, [=] {
    std::this_thread::sleep_for(std::chrono::microseconds(settings.launchMicroseconds));
    emulateKernel(blocks, threads, thread);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool up = kind == cudaMemcpyHostToDevice;
  if (emulateHoldsMemory(to) != up || emulateHoldsMemory(from) == up) return cudaErrorInvalidValue;
  return put(stream, [=] { memcpy(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (!emulateHoldsMemory(to)) return cudaErrorInvalidValue;
  return put(stream, [=] { memset(to, value, bytes); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const EmulationLock lock;
  *stream = new EmulatedStream{std::make_shared<Queue>()};
  queues().push_back((*stream)->queue);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const EmulationLock lock;
  stream->queue->runUntil(stream->queue->put);
  std::erase(queues(), stream->queue);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const EmulationLock lock;
  stream->queue->runUntil(stream->queue->put);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const EmulationLock lock;
  return put(stream, [awaited = EmulatedEvent{event->last}] { awaited.wait(); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new EmulatedEvent{};
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const EmulationLock lock;
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const EmulationLock lock;
  runSomething();
  if (!event->file.empty()) return access(event->file.c_str(), F_OK) == 0 ? cudaSuccess : cudaErrorNotReady;
  return event->last->queue == nullptr || event->last->queue->done >= event->last->number ? cudaSuccess
                                                                                          : cudaErrorNotReady;
}
// The handle is the file's path.
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  const size_t length = strnlen(handle.reserved, sizeof handle.reserved);
  if (handle.reserved[0] != '/' || length == sizeof handle.reserved) return cudaErrorInvalidResourceHandle;
  *event = new EmulatedEvent{};
  (*event)->file = handle.reserved;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const EmulationLock lock;
  event->last = std::make_shared<EmulatedEvent::Record>();
  event->last->queue = stream->queue;
  event->last->number = stream->queue->put + 1;
  return put(stream, [record = event->last] { record->time = std::chrono::steady_clock::now(); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const EmulationLock lock;
  event->wait();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EmulationLock lock;
  for (const cudaEvent_t event : {begin, end}) {
    if (event->last->queue == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->last->queue->done < event->last->number) return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->last->time - begin->last->time).count();
  return cudaSuccess;
}
