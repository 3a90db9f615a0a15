// ThreadPool: every tile once, workers in range, cancellation, several callers, many short runs.
#include "engine/thread_pool.h"

#include <thread>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <system_error>
#endif

#include "check.h"

using namespace collapsar;

TEST_CASE("every tile runs once") {
  for (int threads = 1; threads <= 5; threads++) {
    ThreadPool pool(threads);
    CHECK_EQUAL(pool.threads(), threads);
    for (const std::int64_t tiles : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
      std::atomic<int> strangers{0};
      JobControl control;
      const Outcome outcome = pool.run(tiles, control, [&](std::int64_t tile, int worker) {
        runs[static_cast<std::size_t>(tile)]++;
        if (worker < 0 || worker >= threads) strangers++;
      });
      CHECK(outcome == Outcome::Done);
      CHECK_EQUAL(strangers.load(), 0);
      for (const auto& count : runs) CHECK_EQUAL(count.load(), 1);
    }
  }
}

TEST_CASE("no two tiles run on one worker at a time") {
  ThreadPool pool(4);
  std::atomic<int> inside[4] = {};
  std::atomic<int> collisions{0};
  JobControl control;
  pool.run(2000, control, [&](std::int64_t, int worker) {
    if (inside[worker].fetch_add(1) != 0) collisions++;
    inside[worker].fetch_sub(1);
  });
  CHECK_EQUAL(collisions.load(), 0);
}

TEST_CASE("a cancelled run starts nothing, and one cancelled on the way stops") {
  ThreadPool pool(3);
  JobControl before;
  before.cancelled = true;
  std::atomic<int> started{0};
  CHECK(pool.run(100, before, [&](std::int64_t, int) { started++; }) == Outcome::Cancelled);
  CHECK_EQUAL(started.load(), 0);

  JobControl during;
  started = 0;
  const Outcome outcome = pool.run(1 << 20, during, [&](std::int64_t, int) {
    if (++started == 50) during.cancelled = true;
  });
  CHECK(outcome == Outcome::Cancelled);
  CHECK(started.load() >= 50 && started.load() < (1 << 20));

  // The pool is as good as new.
  JobControl after;
  started = 0;
  CHECK(pool.run(100, after, [&](std::int64_t, int) { started++; }) == Outcome::Done);
  CHECK_EQUAL(started.load(), 100);
}

TEST_CASE("a flag set by the last tile does not undo a finished run") {
  ThreadPool pool(1);
  JobControl control;
  CHECK(pool.run(10, control, [&](std::int64_t tile, int) { control.cancelled = tile == 9; }) == Outcome::Done);
}

TEST_CASE("many short runs") {
  ThreadPool pool(4);
  std::int64_t total = 0;
  for (int i = 0; i < 3000; i++) {
    std::atomic<std::int64_t> sum{0};
    JobControl control;
    pool.run(i % 6, control, [&](std::int64_t tile, int) { sum += tile; });
    total += sum.load();
  }
  CHECK_EQUAL(total, 500 * (0 + 0 + 1 + 3 + 6 + 10));
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> inside{0}, overlaps{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; caller++) {
    callers.emplace_back([&] {
      for (int i = 0; i < 100; i++) {
        JobControl control;
        std::atomic<int> begun{0}, ended{0};
        pool.run(8, control, [&](std::int64_t tile, int) {
          if (begun.fetch_add(1) == 0 && inside.fetch_add(1) != 0) overlaps++;
          sum += tile;
          if (ended.fetch_add(1) == 7) inside.fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQUAL(sum.load(), 4 * 100 * 28);
  CHECK_EQUAL(overlaps.load(), 0);
}

TEST_CASE("an idle pool can be destroyed at once") {
  for (int i = 0; i < 200; i++) ThreadPool pool(1 + i % 5);
}

// A sanitizer ends the process where it gets no memory.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("threads that cannot all be started are ended again") {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  CHECK_EQUAL(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  // Stacks for some of them.
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (std::int64_t{1} << 28));
  CHECK_EQUAL(setrlimit(RLIMIT_AS, &tight), 0);
  void* const beyond = mmap(nullptr, std::size_t{1} << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (beyond != MAP_FAILED) {
    munmap(beyond, std::size_t{1} << 30);
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &before), 0);
    std::puts("skipped: memory is not limited here (an emulated processor)");
    return;
  }
  bool refused = false;
  try {
    ThreadPool pool(1024);
  } catch (const std::system_error&) {
    refused = true;
  }
  CHECK_EQUAL(setrlimit(RLIMIT_AS, &before), 0);
  CHECK(refused);
  ThreadPool pool(3);
  JobControl control;
  std::atomic<int> tiles{0};
  CHECK(pool.run(100, control, [&](std::int64_t, int) { tiles++; }) == Outcome::Done);
  CHECK_EQUAL(tiles.load(), 100);
}
#endif

int main() { return collapsar::test::runCases(); }
