// How a caller on another thread stops a running computation and sees how far it is.
#pragma once

#include <atomic>
#include <cstdint>

namespace collapsar {

// Shared by one running job and the thread that asked for it. A computation polls `cancelled` once per tile, which has
// 2^22 elements at most (a few milliseconds of work), however long its rows, and then returns early with
// Outcome::Cancelled; what it wrote is then undefined.
struct JobControl {
  std::atomic<bool> cancelled{false};
  std::atomic<std::int64_t> doneUnits{0};  // rises to totalUnits; the unit is an input element
  std::atomic<std::int64_t> totalUnits{0};
};

enum class Outcome { Done, Cancelled };

}  // namespace collapsar
