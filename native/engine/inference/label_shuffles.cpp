// Fisher-Yates shuffles by counter-based random numbers, and the last ones drawn.
#include "label_shuffles.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "random.h"

namespace collapsar {

namespace {

constexpr std::int64_t kDrawnRows = 1 << 15;  // between looks at `cancelled`: some .2 ms of drawing

// An odd number of cache lines: with a power of two, a row of all permutations would share one set of the cache.
std::int64_t strideOf(std::int64_t rows) {
  constexpr std::int64_t kLine = 64 / sizeof(std::uint16_t);
  return ((rows + kLine - 1) / kLine | 1) * kLine;
}

// The last ones used, within a few megabytes.
class ShuffleCache {
 public:
  static constexpr std::int64_t kMostEntries = 1 << 21;

  static bool canHold(const ShuffledLabels& labels, std::int64_t stride) {
    return labels.rows <= 1 << 16 && labels.permutations <= kMostEntries / stride;
  }

  std::shared_ptr<const KnownShuffles> find(const ShuffledLabels& wanted) {
    const std::lock_guard lock(mutex_);
    for (const auto& known : known_) {
      if (known->rows == wanted.rows && known->permutations == wanted.permutations && known->seed == wanted.seed) {
        return known;
      }
    }
    return nullptr;
  }

  void keep(std::shared_ptr<const KnownShuffles> shuffles) {
    const std::lock_guard lock(mutex_);
    known_.push_front(std::move(shuffles));
    std::int64_t entries = 0;
    for (std::size_t i = 0; i < known_.size(); i++) {
      entries += static_cast<std::int64_t>(known_[i]->sources.size());
      if (entries > kMostEntries && i > 0) known_.resize(i);
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<const KnownShuffles>> known_;
};

ShuffleCache& shuffleCache() {
  static ShuffleCache* const cache = new ShuffleCache;  // never destroyed: threads may outlive static objects
  return *cache;
}

}  // namespace

LabelShuffles::LabelShuffles(const ShuffledLabels& labels, std::int64_t tilePermutations, int workers)
    : labels_(labels), stride_(strideOf(labels.rows)) {
  if (ShuffleCache::canHold(labels, stride_)) {
    known_ = shuffleCache().find(labels);
    if (known_ != nullptr) return;
    drawn_ = std::make_shared<KnownShuffles>(KnownShuffles{labels.rows, labels.permutations, labels.seed, {}});
    drawn_->sources.resize(static_cast<std::size_t>(labels.permutations * stride_));
    return;
  }
  const auto entries = static_cast<std::size_t>(tilePermutations * stride_);
  for (int worker = 0; worker < workers; worker++) {
    if (labels.columns <= kNarrowLabels) {
      narrow_.emplace_back(new std::uint16_t[entries]);
    } else {
      wide_.emplace_back(new std::int32_t[entries]);
    }
  }
}

template <typename Entry>
bool LabelShuffles::draw(Entry* entries, std::int64_t first, std::int64_t size, const std::int32_t* values,
                         const JobControl& control) const {
  for (std::int64_t i = 0; i < size; i++, entries += stride_) {
    for (std::int64_t r = 0; r < labels_.rows; r++) {
      entries[r] = static_cast<Entry>(values == nullptr ? static_cast<std::int32_t>(r) : values[r]);
    }
    CounterRandom random(labels_.seed, static_cast<std::uint64_t>(first + i));
    for (std::int64_t end = labels_.rows; end > 0;) {
      if (control.cancelled.load(std::memory_order_relaxed)) return false;
      const std::int64_t begin = std::max<std::int64_t>(0, end - kDrawnRows);
      for (std::int64_t r = end - 1; r >= begin; r--) {
        std::swap(entries[r], entries[random.below(static_cast<std::uint32_t>(r + 1))]);
      }
      end = begin;
    }
  }
  return true;
}

template bool LabelShuffles::draw(std::uint16_t*, std::int64_t, std::int64_t, const std::int32_t*,
                                  const JobControl&) const;
template bool LabelShuffles::draw(std::int32_t*, std::int64_t, std::int64_t, const std::int32_t*,
                                  const JobControl&) const;

void LabelShuffles::keep() {
  if (drawn_ != nullptr) shuffleCache().keep(std::move(drawn_));
}

}  // namespace collapsar
