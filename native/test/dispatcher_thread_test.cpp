// Dispatcher: tasks in order, withdrawn and cancelled ones, failures, and its end from every state.
// The dispatcher belongs to the addon but knows no Node, so its source is compiled in here.
#include "node/dispatcher.h"

#include <atomic>
#include <chrono>
#if defined(__linux__)
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#endif
#include <stdexcept>
#include <vector>

#include "check.h"
#include "flushed_subnormals.h"
#include "node/dispatcher.cpp"
#include "scarce_stacks.h"

using namespace collapsar;

namespace {

struct CountingTask : Task {
  Outcome run(ThreadPool& pool) override {
    if (begin) begin();
    return pool.run(tiles, control, [this](std::int64_t, int) {
      done++;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
  }

  std::int64_t tiles = 4;
  std::atomic<std::int64_t> done{0};
  std::function<void()> begin;
};

// Collects ends as the addon's environment does.
struct Ends {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Task*> tasks;

  void add(Task* task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(task);
    changed.notify_all();
  }
  void wait(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return tasks.size() >= count; });
  }
};

}  // namespace

TEST_CASE("tasks run in order and end once") {
  Ends ends;
  std::vector<CountingTask> tasks(50);
  Dispatcher dispatcher(2, [&](Task* task) { ends.add(task); });
  for (CountingTask& task : tasks) dispatcher.submit(&task);
  ends.wait(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); i++) {
    CHECK(ends.tasks[i] == &tasks[i]);
    CHECK_EQUAL(tasks[i].done.load(), 4);
    CHECK(!tasks[i].cancelled && tasks[i].failure.empty());
  }
}

TEST_CASE("tasks compute with subnormal numbers, whatever the mode of who opened the dispatcher, or what a task left") {
  const test::FlushedSubnormals mode;
  Ends ends;
  bool kept[2] = {};
  CountingTask tasks[2];
  tasks[0].begin = [&] {
    kept[0] = test::keepsSubnormals();
    // As where a driver is loaded.
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  };
  tasks[1].begin = [&] { kept[1] = test::keepsSubnormals(); };
  Dispatcher dispatcher(2, [&](Task* task) { ends.add(task); });
  for (CountingTask& task : tasks) dispatcher.submit(&task);
  ends.wait(2);
  CHECK(kept[0] && kept[1]);
}

TEST_CASE("a withdrawn task never runs, a cancelled one stops") {
  Ends ends;
  CountingTask running, waiting;
  running.tiles = 1000000;
  Dispatcher dispatcher(2, [&](Task* task) { ends.add(task); });
  dispatcher.submit(&running);
  dispatcher.submit(&waiting);
  while (running.done == 0) std::this_thread::yield();
  CHECK(dispatcher.withdraw(&waiting));
  CHECK(!dispatcher.withdraw(&running));
  running.control.cancelled = true;
  ends.wait(1);
  CHECK(running.cancelled);
  dispatcher.cancelAndJoin();
  CHECK_EQUAL(ends.tasks.size(), 1u);
  CHECK_EQUAL(waiting.done.load(), 0);
}

TEST_CASE("a task that is cancelled before its turn is not begun") {
  Ends ends;
  CountingTask running, cancelled;
  running.tiles = 1000000;
  cancelled.begin = [] { throw std::runtime_error("begun"); };
  Dispatcher dispatcher(1, [&](Task* task) { ends.add(task); });
  dispatcher.submit(&running);
  dispatcher.submit(&cancelled);
  cancelled.cancel();
  running.cancel();
  ends.wait(2);
  CHECK(cancelled.cancelled && cancelled.failure.empty());
}

#if defined(__linux__)
TEST_CASE("when the last end is reported the pool's threads are gone") {
  using Threads = std::set<std::string>;
  const auto threads = [] {
    Threads all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
      all.insert(entry.path().filename());
    return all;
  };
  const auto common = [](const Threads& a, const Threads& b) {
    return std::count_if(a.begin(), a.end(), [&](const std::string& thread) { return b.contains(thread); });
  };
  Ends ends;
  CountingTask task, last;
  // Of earlier dispatchers, too: the kernel wakes who joins a thread before it takes the thread off its list.
  const Threads before = threads();
  Threads own;
  std::ptrdiff_t left = 0;
  {
    Dispatcher dispatcher(5, [&](Task* ended) {
      if (ended == &task) {
        own = threads();
        std::erase_if(own, [&](const std::string& thread) { return before.contains(thread); });
      } else {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        do left = common(own, threads());
        while (left > 1 && std::chrono::steady_clock::now() < limit);
      }
      ends.add(ended);
    });
    dispatcher.submit(&task);
    ends.wait(1);
    dispatcher.submitLast(&last);
    ends.wait(2);
  }
  CHECK_EQUAL(own.size(), 5u);
  CHECK_EQUAL(left, 1);
}
#endif

TEST_CASE("what a task throws becomes its failure") {
  Ends ends;
  CountingTask fails, blames, device, shortage, anyShortage, fine;
  fails.begin = [] { throw std::runtime_error("as asked"); };
  blames.begin = [] { throw ArgumentProblem{"own", "is wrong"}; };
  device.begin = [] { throw DeviceProblem{"out_of_memory", "is full", 50, 30}; };
  shortage.begin = [] { throw MemoryShortage(1234); };
  anyShortage.begin = [] { throw std::bad_alloc(); };
  Dispatcher dispatcher(1, [&](Task* task) { ends.add(task); });
  for (CountingTask* task : {&fails, &blames, &device, &shortage, &anyShortage, &fine}) dispatcher.submit(task);
  ends.wait(6);
  CHECK(fails.failure == "as asked" && fails.failedArgument.empty() && fails.failedReason.empty());
  CHECK(blames.failure == "is wrong" && blames.failedArgument == "own");
  CHECK(device.failure == "is full" && device.failedReason == "out_of_memory");
  CHECK(device.askedBytes == 50 && device.freeBytes == 30);
  CHECK(shortage.failure == "not enough memory: 1234 bytes could not be had" && shortage.failedReason == kNoMemory);
  CHECK(shortage.askedBytes == 1234 && shortage.freeBytes == -1);
  CHECK(anyShortage.failure == "not enough memory" && anyShortage.failedReason == kNoMemory);
  CHECK_EQUAL(anyShortage.askedBytes, -1);
  CHECK(fine.failure.empty() && fine.failedReason.empty());
  for (const Task* task : ends.tasks) CHECK(!task->cancelled);
}

TEST_CASE("a task that comes long after the last one wakes the thread") {
  Ends ends;
  CountingTask tasks[3];
  Dispatcher dispatcher(1, [&](Task* task) { ends.add(task); });
  for (CountingTask& task : tasks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    dispatcher.submit(&task);
    ends.wait(static_cast<std::size_t>(&task - tasks) + 1);
  }
  CHECK_EQUAL(tasks[2].done.load(), 4);
}

#ifdef COLLAPSAR_SCARCE_STACKS
TEST_CASE("where its threads cannot be started each task fails with what to do") {
  const test::ScarceStacks scarce;
  if (!scarce.limited()) return;
  Ends ends;
  CountingTask tasks[2];
  Dispatcher dispatcher(scarce.kTooMany, [&](Task* task) { ends.add(task); });
  for (CountingTask& task : tasks) dispatcher.submit(&task);
  ends.wait(2);
  for (const CountingTask& task : tasks) {
    CHECK(task.failure.starts_with("cannot start 1024 threads: "));
    CHECK(task.failure.ends_with("open the engine with fewer (option `threads`), or raise the limit of this process"));
    CHECK_EQUAL(task.done.load(), 0);
  }
}
#endif

TEST_CASE("it ends with the last task, or at once when cancelled, and reports every end") {
  for (int round = 0; round < 40; round++) {
    Ends ends;
    std::vector<CountingTask> tasks(6);
    CountingTask last;
    tasks[0].tiles = 1000000;
    {
      Dispatcher dispatcher(1 + round % 3, [&](Task* task) { ends.add(task); });
      for (CountingTask& task : tasks) dispatcher.submit(&task);
      if (round % 2 == 0) {
        dispatcher.submitLast(&last);
        tasks[0].control.cancelled = true;
        ends.wait(tasks.size() + 1);
        CHECK(ends.tasks.back() == &last);
        for (std::size_t i = 1; i < tasks.size(); i++) CHECK_EQUAL(tasks[i].done.load(), 4);
      } else {
        if (round % 4 == 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
        dispatcher.cancelAndJoin();
        CHECK_EQUAL(ends.tasks.size(), tasks.size());
        for (const CountingTask& task : tasks) CHECK(task.cancelled);
      }
    }
  }
}

int main() { return collapsar::test::runCases(); }
