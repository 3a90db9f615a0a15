#include "shuffled_actions.h"

#include <algorithm>

namespace collapsar {

namespace {

struct Cells {
  double logs = 0;
  std::int64_t occupied = 0;
};

// counts: [kindCount], zeros before and after.
Cells cellsOf(const ActionTable& actions, const std::vector<std::int32_t>& kinds, std::vector<std::int32_t>& counts) {
  Cells cells;
  const std::int32_t* row = actions.byPrompt.data();
  for (const std::int32_t size : actions.sizes) {
    for (std::int32_t at = 0; at < size; at++) {
      const std::int32_t before = counts[kinds[row[at]]]++;
      cells.occupied += before == 0;
      cells.logs += actions.growth[before];
    }
    // Not all counts: time grows with rows, not with cells.
    for (std::int32_t at = 0; at < size; at++) counts[kinds[row[at]]] = 0;
    row += size;
  }
  return cells;
}

bool hasPeriodTwo(const std::int32_t* actions, std::int64_t count) {
  for (std::int64_t at = 3; at < count; at++) {
    const std::int32_t* const four = actions + at - 3;
    if (four[0] == four[2] && four[1] == four[3] && four[0] != four[1]) return true;
  }
  return false;
}

std::int64_t countPeriodic(const std::vector<std::int32_t>& actions, const std::vector<std::int32_t>& lengths) {
  std::int64_t periodic = 0;
  const std::int32_t* episode = actions.data();
  for (const std::int32_t length : lengths) {
    periodic += hasPeriodTwo(episode, length);
    episode += length;
  }
  return periodic;
}

template <class Shuffle>
Outcome forEachShuffle(std::int64_t shuffles, JobControl& control, const Shuffle& shuffle) {
  control.totalUnits.store(shuffles, std::memory_order_relaxed);
  for (std::int64_t round = 0; round < shuffles; round++) {
    if (control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
    shuffle();
    control.doneUnits.fetch_add(1, std::memory_order_relaxed);
  }
  return Outcome::Done;
}

}  // namespace

Outcome actionDependence(const ActionTable& actions, std::int64_t shuffles, Xoshiro128 random, JobControl& control,
                         ActionDependence* found) {
  std::vector<std::int32_t> kinds = actions.kinds;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(actions.kindCount));
  const Cells observed = cellsOf(actions, kinds, counts);
  // Sums of the same terms in another order differ by rounding: that is a tie.
  const double least = observed.logs - 1e-9 * std::max(1.0, observed.logs);
  *found = {observed.logs, observed.occupied, 0};
  return forEachShuffle(shuffles, control, [&] {
    random.shuffle(kinds.data(), static_cast<std::int64_t>(kinds.size()));
    found->asDependent += cellsOf(actions, kinds, counts).logs >= least;
  });
}

Outcome matchedOrders(const double* squares, const std::vector<std::int32_t>& sizes, double least,
                      std::int64_t shuffles, Xoshiro128 random, JobControl& control, std::int64_t* reached) {
  std::vector<std::int32_t> orders;
  for (const std::int32_t size : sizes) {
    for (std::int32_t at = 0; at < size; at++) orders.push_back(at);
  }
  *reached = 0;
  return forEachShuffle(shuffles, control, [&] {
    double total = 0;
    std::int32_t* order = orders.data();
    const double* row = squares;
    for (const std::int32_t size : sizes) {
      random.shuffle(order, size);
      for (std::int32_t action = 0; action < size; action++, row += size) total += row[order[action]];
      order += size;
    }
    *reached += total >= least;
  });
}

Outcome periodicEpisodes(const std::vector<std::int32_t>& actions, const std::vector<std::int32_t>& lengths,
                         std::int64_t shuffles, Xoshiro128 random, JobControl& control, PeriodicEpisodes* found) {
  *found = {countPeriodic(actions, lengths), 0};
  std::vector<std::int32_t> shuffled;
  return forEachShuffle(shuffles, control, [&] {
    shuffled = actions;
    std::int32_t* episode = shuffled.data();
    for (const std::int32_t length : lengths) {
      random.shuffle(episode, length);
      episode += length;
    }
    found->asPeriodic += countPeriodic(shuffled, lengths) >= found->periodic;
  });
}

}  // namespace collapsar
