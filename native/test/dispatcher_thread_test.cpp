// Dispatcher: tasks in order, withdrawn and cancelled ones, failures, and its end from every state.
// The dispatcher belongs to the addon but knows no Node, so its source is compiled in here.
#include "node/dispatcher.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "node/dispatcher.cpp"

using namespace collapsar;

namespace {

struct CountingTask : Task {
  Outcome run(ThreadPool& pool) override {
    if (fails) throw std::runtime_error("as asked");
    if (blames) throw ArgumentProblem{"own", "is wrong"};
    return pool.run(tiles, control, [this](std::int64_t, int) {
      done++;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
  }

  std::int64_t tiles = 4;
  std::atomic<std::int64_t> done{0};
  bool fails = false, blames = false;
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
  CHECK_EQUAL(waiting.done.load(), 0);
}

TEST_CASE("what a task throws becomes its failure") {
  Ends ends;
  CountingTask fails, blames, fine;
  fails.fails = blames.blames = true;
  Dispatcher dispatcher(1, [&](Task* task) { ends.add(task); });
  for (CountingTask* task : {&fails, &blames, &fine}) dispatcher.submit(task);
  ends.wait(3);
  CHECK(fails.failure == "as asked" && fails.failedArgument.empty());
  CHECK(blames.failure == "is wrong" && blames.failedArgument == "own");
  CHECK(fine.failure.empty());
}

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
