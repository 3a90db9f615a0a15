// ThreadPool: every tile once, workers in range, cancellation, several callers, many short runs.
#include "engine/thread_pool.h"

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "check.h"
#include "flushed_subnormals.h"
#include "scarce_stacks.h"

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

TEST_CASE("what a tile throws is thrown to the caller, and the pool is as good as new") {
  ThreadPool pool(3);
  for (int round = 0; round < 20; round++) {
    JobControl control;
    std::atomic<int> started{0};
    bool thrown = false;
    try {
      pool.run(1 << 20, control, [&](std::int64_t tile, int) {
        started++;
        if (tile == 100 || tile == 101) throw std::runtime_error("a tile");
      });
    } catch (const std::runtime_error& error) {
      thrown = std::string(error.what()) == "a tile";
    }
    CHECK(thrown);
    CHECK(started.load() < 1 << 20);
    started = 0;
    CHECK(pool.run(100, control, [&](std::int64_t, int) { started++; }) == Outcome::Done);
    CHECK_EQUAL(started.load(), 100);
  }
}

TEST_CASE("the pool's threads do not inherit the mode that flushes subnormal numbers") {
  const test::FlushedSubnormals mode;
  CHECK(!mode.possible() || !test::keepsSubnormals());
  ThreadPool pool(3);
  std::atomic<int> wrong{0}, others{0};
  JobControl control;
  while (others == 0) {
    pool.run(100, control, [&](std::int64_t, int worker) {
      if (worker == 0) return std::this_thread::sleep_for(std::chrono::microseconds(50));
      others++;
      if (!test::keepsSubnormals()) wrong++;
    });
  }
  CHECK_EQUAL(wrong.load(), 0);
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

TEST_CASE("tiles run at the same time, on all threads") {
  ThreadPool pool(3);
  for (int run = 0; run < 3; run++) {
    std::atomic<int> inside{0};
    std::atomic<bool> together{true};
    JobControl control;
    pool.run(3, control, [&](std::int64_t, int) {
      inside++;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside < 3 && together) {
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() > end) together = false;
      }
    });
    CHECK(together.load());
  }
}

TEST_CASE("a run ends when its last tile has, however long that takes") {
  ThreadPool pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  for (int run = 0; run < 5; run++) {
    std::atomic<int> inside{0}, ended{0};
    JobControl control;
    pool.run(3, control, [&](std::int64_t, int) {
      inside++;
      // The caller waits until another thread is at work, and ends before it, by more than it waits awake.
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ended++;
    });
    CHECK_EQUAL(ended.load(), 3);
  }
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> inside{0}, overlaps{0}, ready{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; caller++) {
    callers.emplace_back([&] {
      ready++;
      while (ready < 4) std::this_thread::yield();
      for (int i = 0; i < 100; i++) {
        JobControl control;
        std::atomic<int> begun{0}, ended{0};
        pool.run(8, control, [&](std::int64_t tile, int) {
          if (begun.fetch_add(1) == 0 && inside.fetch_add(1) != 0) overlaps++;
          sum += tile;
          std::this_thread::yield();
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

#ifdef COLLAPSAR_SCARCE_STACKS
TEST_CASE("threads that cannot all be started are ended again") {
  {
    const test::ScarceStacks scarce;
    if (!scarce.limited()) return;
    bool refused = false;
    try {
      ThreadPool pool(scarce.kTooMany);
    } catch (const std::system_error&) {
      refused = true;
    }
    CHECK(refused);
  }
  ThreadPool pool(3);
  JobControl control;
  std::atomic<int> tiles{0};
  CHECK(pool.run(100, control, [&](std::int64_t, int) { tiles++; }) == Outcome::Done);
  CHECK_EQUAL(tiles.load(), 100);
}
#endif

int main() { return collapsar::test::runCases(); }
