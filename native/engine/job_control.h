// How a caller on another thread stops a running computation and sees how far it is.
#pragma once

#include <atomic>
#include <cstdint>

namespace collapsar {

// Shared by a running job and who asked for it. A computation polls `cancelled` once per tile of at most 2^22 elements
// (a few milliseconds) and then returns Outcome::Cancelled; what it wrote is undefined.
struct JobControl {
  std::atomic<bool> cancelled{false};
  std::atomic<std::int64_t> doneUnits{0};  // rises to totalUnits; the unit is an input element
  std::atomic<std::int64_t> totalUnits{0};
};

enum class Outcome { Done, Cancelled };

}  // namespace collapsar
