// An engine's own thread: takes tasks in the order they came and runs each on the engine's thread pool. Knows no Node.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// What a dispatcher runs. Whoever submits it keeps it alive until the dispatcher reports its end.
class Task {
 public:
  virtual ~Task() = default;

  // On the dispatcher's thread. What it throws becomes the task's failure.
  virtual Outcome run(ThreadPool& pool) = 0;

  // Any thread: asks it to end early.
  void cancel() {
    control.cancelled = true;
    cancelFlag = 1;
  }

  JobControl control;
  std::atomic<std::int32_t> cancelFlag{0};  // control.cancelled for the CUDA backend, which knows plain C only

  // Set when the end is reported: cancelled, failed (with the reason), or neither.
  bool cancelled = false;
  std::string failure;
  std::string failedArgument;  // whose fault it was; empty: nobody's
  std::string failedReason;    // DeviceProblem's, with what it says of memory; empty: no device's
  std::int64_t askedBytes = -1, freeBytes = -1;
};

// A task's complaint about an argument that only its own thread looks at.
struct ArgumentProblem {
  std::string argument;
  std::string problem;
};

// A GPU that cannot be had, or failed.
struct DeviceProblem {
  std::string reason;  // one of DeviceProblem in src/checks/errors.ts
  std::string problem;
  std::int64_t askedBytes = -1, freeBytes = -1;  // of its memory, where it was not enough
};

class Dispatcher {
 public:
  // `ended` is called on the dispatcher's thread once for every submitted task that was not withdrawn; the dispatcher
  // does not touch the task after that.
  Dispatcher(int threads, std::function<void(Task*)> ended);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  void submit(Task* task);

  // The last task: when its end is reported, the pool's threads are gone and join() hardly waits.
  void submitLast(Task* task);

  // Takes back a task that has not started; false if it has. Its end is not reported.
  bool withdraw(Task* task);

  // Cancels whatever is queued or running and ends the thread. The ends of all tasks are reported first.
  void cancelAndJoin();
  void join();

 private:
  void loop(int threads);
  static void execute(Task* task, ThreadPool* pool, const std::string& startFailure);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task*> queue_;
  std::atomic<bool> asked_{false};  // a task or the end may be waiting: what the thread looks at before it sleeps
  Task* running_ = nullptr;
  Task* last_ = nullptr;
  bool stop_ = false;
  std::function<void(Task*)> ended_;
  std::thread thread_;
};

}  // namespace collapsar
