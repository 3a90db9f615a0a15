#include "dispatcher.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "engine/float_mode.h"
#include "engine/spin.h"
#include "memory_shortage.h"

namespace collapsar {

namespace {

// Runs the task; what it throws becomes its failure.
void runNoting(Task& task, ThreadPool& pool) {
  try {
    task.cancelled = task.run(pool) == Outcome::Cancelled;
  } catch (const ArgumentProblem& problem) {
    task.failedArgument = problem.argument;
    task.failure = problem.problem;
  } catch (const DeviceProblem& problem) {
    task.failedReason = problem.reason;
    task.failure = problem.problem;
    task.askedBytes = problem.askedBytes;
    task.freeBytes = problem.freeBytes;
  } catch (const std::bad_alloc& error) {
    task.failedReason = kNoMemory;
    if (const std::size_t asked = askedBytes(error); asked > 0) task.askedBytes = static_cast<std::int64_t>(asked);
    task.failure = wordsOf(error);
  } catch (const std::exception& error) {
    task.failure = error.what();
  }
}

}  // namespace

Dispatcher::Dispatcher(int threads, std::function<void(Task*)> ended)
    : ended_(std::move(ended)), thread_([this, threads] { loop(threads); }) {}

Dispatcher::~Dispatcher() { cancelAndJoin(); }

void Dispatcher::submit(Task* task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
    asked_ = true;
  }
  wake_.notify_one();
}

void Dispatcher::submitLast(Task* task) {
  {
    const std::lock_guard lock(mutex_);
    last_ = task;
    asked_ = stop_ = true;
  }
  wake_.notify_one();
}

bool Dispatcher::withdraw(Task* task) {
  const std::lock_guard lock(mutex_);
  const auto position = std::find(queue_.begin(), queue_.end(), task);
  if (position == queue_.end()) return false;
  queue_.erase(position);
  return true;
}

void Dispatcher::cancelAndJoin() {
  {
    const std::lock_guard lock(mutex_);
    for (Task* const task : queue_) task->cancel();
    if (running_ != nullptr) running_->cancel();
    asked_ = stop_ = true;
  }
  wake_.notify_one();
  join();
}

void Dispatcher::join() {
  if (thread_.joinable()) thread_.join();
}

void Dispatcher::loop(int threads) {
  std::unique_ptr<ThreadPool> pool;
  std::string startFailure;
  try {
    pool = std::make_unique<ThreadPool>(threads);
  } catch (const std::exception& error) {
    startFailure = "cannot start " + std::to_string(threads) + " threads: " + error.what() +
                   "; open the engine with fewer (option `threads`), or raise the limit of this process";
  }
  for (;;) {
    Task* task;
    // Calls that follow each other find the thread awake (in a virtual machine 6 µs until one has settled
    // instead of 75, and 2 µs of the JS thread instead of 15).
    spinUntil([this] { return asked_.load(); });
    {
      std::unique_lock lock(mutex_);
      running_ = nullptr;
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) break;
      task = running_ = queue_.front();
      queue_.pop_front();
      asked_ = stop_ || !queue_.empty();
    }
    execute(task, pool.get(), startFailure);
    {
      // Before the end is reported, which may free the task: cancelAndJoin() must not find it any more.
      const std::lock_guard lock(mutex_);
      running_ = nullptr;
    }
    ended_(task);
  }
  pool.reset();
  if (last_ != nullptr) ended_(last_);
}

void Dispatcher::execute(Task* task, ThreadPool* pool, const std::string& startFailure) {
  if (task->control.cancelled) {
    task->cancelled = true;
    return;
  }
  if (pool == nullptr) {
    task->failure = startFailure;
    return;
  }
  // Not once for the thread: a task may load a library (a GPU's driver) that changes the mode.
  const DefaultFloatMode mode;
  try {
    runNoting(*task, *pool);
  } catch (const std::bad_alloc&) {
    // Not even the words of the failure could be kept: these need no memory.
    task->failedReason = kNoMemory;
    task->failure = kNoMemory;
  }
}

}  // namespace collapsar
