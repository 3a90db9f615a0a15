// The engine's own threads: a computation is cut into numbered tiles, and idle threads take the next one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "job_control.h"

namespace collapsar {

class ThreadPool {
 public:
  // `threads` >= 1 counts the calling thread: a pool of 1 starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Runs body(tile, worker) for tile in [0, tiles), worker in [0, threads()), on the caller and the pool's threads;
  // returns when all have ended. Stops handing out tiles when control.cancelled is set or a tile has thrown, which is
  // thrown here. A second caller waits. No result may depend on which worker took a tile. The pool's threads compute in
  // the default floating-point mode; for the caller's see float_mode.h.
  Outcome run(std::int64_t tiles, JobControl& control, const std::function<void(std::int64_t tile, int worker)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace collapsar
