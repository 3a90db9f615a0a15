// Labels of rows in random order: under each of many permutations, which row's label every row gets. Tile by tile,
// because all of them would be permutations times rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/job_control.h"

namespace collapsar {

struct ShuffledLabels {
  const std::int32_t* own;  // [rows]: label of each row, in [0, columns)
  std::int64_t rows, columns, permutations;
  std::uint64_t seed;
};

// Permutations [0, size) of a tile; a permutation's entries stand together, as narrow as the labels allow.
template <typename Entry>
struct LabelTile {
  const Entry* labels;
  std::int64_t stride, size;

  std::int64_t label(std::int64_t permutation, std::int64_t row) const { return labels[permutation * stride + row]; }
};

// The same as rows that the labels come from, for labels that are not known beforehand.
struct SourceTile {
  const std::uint16_t* sources;
  std::int64_t stride, size;
  const std::int32_t* own;

  std::int64_t label(std::int64_t permutation, std::int64_t row) const {
    return own[sources[permutation * stride + row]];
  }
};

// The source of permuted labels. Few enough are kept for the next step, which mostly has the same: drawing them is
// slow.
struct KnownShuffles {
  std::int64_t rows, permutations;
  std::uint64_t seed;
  std::vector<std::uint16_t> sources;
};

// Permutation b is the Fisher-Yates shuffle of the labels that CounterRandom(seed, b) drives, the last row first:
// row i takes the label at position below(i + 1) among the first i + 1.
class LabelShuffles {
 public:
  // Tiles have up to `tilePermutations`. Throws std::bad_alloc, which nothing below does.
  LabelShuffles(const ShuffledLabels& labels, std::int64_t tilePermutations, int workers);

  // Calls `use` with permutations [first, first + size) as one of the tiles above; each permutation is asked for once,
  // by worker in [0, workers). Does not call it where it was cancelled while it drew.
  template <typename Use>
  void withTile(std::int64_t first, std::int64_t size, int worker, const JobControl& control, Use use) {
    if (known_ != nullptr) return use(SourceTile{known_->sources.data() + first * stride_, stride_, size, labels_.own});
    if (drawn_ != nullptr) {
      std::uint16_t* const sources = drawn_->sources.data() + first * stride_;
      if (draw(sources, first, size, nullptr, control)) use(SourceTile{sources, stride_, size, labels_.own});
    } else if (labels_.columns <= kNarrowLabels) {
      useLabels(narrow_[static_cast<std::size_t>(worker)].get(), first, size, control, use);
    } else {
      useLabels(wide_[static_cast<std::size_t>(worker)].get(), first, size, control, use);
    }
  }

  // Once all tiles were used: what was drawn serves the next step.
  void keep();

 private:
  static constexpr std::int64_t kNarrowLabels = 1 << 16;

  template <typename Entry, typename Use>
  void useLabels(Entry* tile, std::int64_t first, std::int64_t size, const JobControl& control, Use use) const {
    if (draw(tile, first, size, labels_.own, control)) use(LabelTile<Entry>{tile, stride_, size});
  }

  // What each row of permutations [first, first + size) gets of `values`; without, the row it comes from. False:
  // cancelled.
  template <typename Entry>
  bool draw(Entry* entries, std::int64_t first, std::int64_t size, const std::int32_t* values,
            const JobControl& control) const;

  ShuffledLabels labels_;
  std::int64_t stride_;  // from one permutation to the next
  std::shared_ptr<const KnownShuffles> known_;
  std::shared_ptr<KnownShuffles> drawn_;
  // A tile of each worker. Not filled beforehand: of many workers, few may get one to draw.
  std::vector<std::unique_ptr<std::uint16_t[]>> narrow_;
  std::vector<std::unique_ptr<std::int32_t[]>> wide_;
};

}  // namespace collapsar
