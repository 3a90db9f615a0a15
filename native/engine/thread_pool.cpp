// ThreadPool: workers sleep between runs; within one, a shared counter hands out tile numbers.
#include "thread_pool.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "float_mode.h"
#include "spin.h"

namespace collapsar {

namespace {

// What the threads of one run share. It lives on the caller's stack: no worker touches it after reporting its end.
struct Run {
  std::int64_t tiles;
  JobControl& control;
  const std::function<void(std::int64_t, int)>& body;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex failing{};
  std::exception_ptr failure = nullptr;  // the first of those that tiles threw

  void work(int worker) {
    try {
      takeTiles(worker);
    } catch (...) {
      // A thread of the pool has nowhere to throw it to.
      const std::lock_guard lock(failing);
      if (failure == nullptr) failure = std::current_exception();
      next.store(tiles, std::memory_order_relaxed);
    }
  }

  void takeTiles(int worker) {
    for (;;) {
      const std::int64_t tile = next.fetch_add(1, std::memory_order_relaxed);
      if (tile >= tiles) return;
      if (control.cancelled.load(std::memory_order_relaxed)) {
        stopped.store(true, std::memory_order_relaxed);
        return;
      }
      body(tile, worker);
    }
  }
};

}  // namespace

struct ThreadPool::Impl {
  std::vector<std::thread> threads;
  std::mutex oneRun;  // held by the caller of run() for its whole length
  std::mutex mutex;   // guards what follows
  std::condition_variable wake, idle;
  Run* current = nullptr;
  std::uint64_t generation = 0;
  int wanted = 0;            // workers still to join the current run
  std::atomic<int> busy{0};  // workers inside it; changed under the mutex
  bool closing = false;

  // Also where not all of the threads could be started: those that wait would make the end of `wake` wait for them.
  ~Impl() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void serve(int worker) {
    setDefaultFloatMode();
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return closing || (generation != seen && wanted > 0); });
      if (closing) return;
      seen = generation;
      wanted--;
      busy++;
      Run* run = current;
      lock.unlock();
      run->work(worker);
      lock.lock();
      if (--busy == 0) idle.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  for (int worker = 1; worker < threads; worker++) {
    impl_->threads.emplace_back([impl = impl_.get(), worker] { impl->serve(worker); });
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(impl_->threads.size()) + 1; }

Outcome ThreadPool::run(std::int64_t tiles, JobControl& control, const std::function<void(std::int64_t, int)>& body) {
  std::lock_guard alone(impl_->oneRun);
  Run run{tiles, control, body};
  const std::int64_t spare = tiles - 1 < 0 ? 0 : tiles - 1;
  const auto workers = static_cast<std::int64_t>(impl_->threads.size());
  const int invited = static_cast<int>(spare < workers ? spare : workers);  // waking more than tiles is no use
  if (invited > 0) {
    {
      std::lock_guard lock(impl_->mutex);
      impl_->current = &run;
      impl_->generation++;
      impl_->wanted = invited;
    }
    impl_->wake.notify_all();
  }
  run.work(0);
  if (invited > 0) {
    {
      std::lock_guard lock(impl_->mutex);
      impl_->wanted = 0;  // whoever has not come by now is not needed
    }
    spinUntil([&] { return impl_->busy.load() == 0; });  // the last tiles end at about the same time
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [&] { return impl_->busy == 0; });
    impl_->current = nullptr;
  }
  if (run.failure != nullptr) std::rethrow_exception(run.failure);
  return run.stopped.load(std::memory_order_relaxed) ? Outcome::Cancelled : Outcome::Done;
}

}  // namespace collapsar
