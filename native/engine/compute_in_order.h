// Pieces of long rows, computed by any thread and merged in order: the bits do not depend on the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "job_control.h"
#include "thread_pool.h"

namespace collapsar {

// Runs compute(piece, place, worker) for each piece on the pool, and take(piece, place) on the calling thread, by
// rising piece. `places` pieces are under way at a time, place in [0, places): memory does not grow with the input.
template <class Compute, class Take>
Outcome computeInOrder(std::int64_t pieces, std::int64_t places, ThreadPool& pool, JobControl& control,
                       const Compute& compute, const Take& take) {
  for (std::int64_t first = 0; first < pieces; first += places) {
    const std::int64_t count = std::min(places, pieces - first);
    const Outcome outcome =
        pool.run(count, control, [&](std::int64_t place, int worker) { compute(first + place, place, worker); });
    if (outcome == Outcome::Cancelled) return outcome;
    for (std::int64_t place = 0; place < count; place++) take(first + place, place);
  }
  return Outcome::Done;
}

}  // namespace collapsar
