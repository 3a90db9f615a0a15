// S_rj = sum over features f of c_r(f) ln(q_j(f)/3 + d_j(f)/3 + b(f)/3). A feature that prompt j lacks costs
// ln(b(f)/3) whatever j is, so
//
//   S_rj = sum c_r(f) ln(b(f)/3)  +  sum over the features that j has of c_r(f) ln(1 + (q_j(f) + d_j(f)) / b(f)).
//
// The first sum, the same for all prompts, only says how near two scores must be to count as equal. The second is added
// up shard by shard, in a shard by the order of the row's text: whichever thread does it.
#include "row_scores.h"

#include <algorithm>
#include <cmath>

#include "engine/isa.h"
#include "engine/simd/kernel_table.h"
#include "engine/vector_width.h"
#include "feature_counts.h"

namespace collapsar {

namespace {

constexpr std::int64_t kBlockBytes = 1 << 21;  // of the scores that one thread makes at a time: they stay in a cache
constexpr std::int64_t kWidePart = 8;          // a feature that this part of the prompts has gets a value for each

// 1 / the features that a prompt is trained with.
struct Shares {
  std::int64_t stride;          // of prompts: whole vectors
  std::vector<double> trained;  // [kHalf + 1, stride]: rows of the other folds, of even places
  std::vector<double> text;     // [stride]: the prompt's text; 0 for an empty one

  Shares(const UsedRows& rows, const FeatureTexts& texts)
      : stride((rows.prompts + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles),
        trained(static_cast<std::size_t>((kHalf + 1) * stride)),
        text(static_cast<std::size_t>(stride)) {
    for (std::size_t at = 0; at < texts.texts.size(); at++) {
      const auto [prompt, row] = texts.texts[at];
      const auto count = static_cast<double>(texts.features[at]);
      if (row < 0) text[prompt] = count;
      for (int part = 0; part <= kHalf && row >= 0; part++) {
        const bool isTrained = part == kHalf ? rows.place(row) % 2 == 0 : rows.fold[row] != part;
        trained[static_cast<std::size_t>(part * stride) + prompt] += isTrained ? count : 0;
      }
    }
    for (auto* counts : {&trained, &text}) {
      for (double& count : *counts) count = count > 0 ? 1 / count : 0;
    }
  }
};

// Scores [begin, end) of rows under every prompt, all by the same fold, or all of the half split.
struct Block {
  int part;
  std::int64_t begin, end;
  std::vector<double> sums;  // [end - begin, stride]

  bool has(std::int64_t score) const { return score >= begin && score < end; }
};

struct Work {
  const UsedRows& rows;
  const FeatureTexts& texts;
  const Shares& shares;
  RowScores& out;
  std::vector<std::int64_t> scoredRow;  // [scores]: fold by fold, then of the half split
  // [2, R]: the row's score by its fold, and for the half split; -1: it has none.
  std::vector<std::int64_t> scoreOf[2];
  std::vector<std::int64_t> testedAt;           // [R]: -1 where a row is not tested
  std::vector<std::atomic<std::int64_t>> base;  // [R], see FeatureCounts::count
};

struct Scratch {
  std::vector<std::int32_t> trained;  // of each slot: count in the rows that its prompt is trained with
  std::vector<std::int64_t> places;   // of each feature: where in `values` it begins; -1: no row has it
  // ln(1 + (q + d) / b) of a feature's slots; of one that many prompts have for all of them, 0 where they lack it.
  std::vector<double> values;
  std::vector<double> terms;  // [kTemperatures, stride]
};

bool isWide(const FeatureCounts::Feature& feature, std::int64_t prompts) {
  return (feature.endSlot - feature.firstSlot) * kWidePart >= prompts;
}

// use(run, score) for the runs of all rows that a block's training leaves out; score: -1 where it is not the block's.
template <typename Use>
inline __attribute__((always_inline)) void eachRun(const Work& work, const FeatureCounts& counts, const Block& block,
                                                   Use use) {
  const bool half = block.part == kHalf;
  for (int fold = half ? 0 : block.part; fold < (half ? kMostFolds : block.part + 1); fold++) {
    for (const FeatureCounts::Run& run : counts.runs[fold]) {
      const std::int64_t score = work.scoreOf[half][run.row];
      if (score >= 0) use(run, block.has(score) ? score - block.begin : -1);
    }
  }
}

// Sets places and values of the features of the block's rows.
void setValues(const Work& work, const FeatureCounts& counts, const Block& block, Scratch& scratch) {
  scratch.trained.resize(counts.slots.size());
  for (std::size_t slot = 0; slot < counts.slots.size(); slot++) scratch.trained[slot] = counts.slots[slot].inRows;
  eachRun(work, counts, block, [&](const FeatureCounts::Run& run, std::int64_t) {
    for (std::uint32_t at = run.begin; at < run.end; at++) {
      const auto& [feature, slot, count] = counts.entries[at];
      scratch.trained[slot] -= static_cast<std::int32_t>(count);
    }
  });
  const std::int64_t stride = work.shares.stride;
  const double* const inverse = work.shares.trained.data() + block.part * stride;
  const double* const ofText = work.shares.text.data();
  std::vector<double>& values = scratch.values;
  scratch.places.assign(counts.features.size(), -1);
  eachRun(work, counts, block, [&](const FeatureCounts::Run& run, std::int64_t score) {
    for (std::uint32_t at = run.begin; at < run.end && score >= 0; at++) scratch.places[counts.entries[at].feature] = 0;
  });
  values.clear();
  for (std::size_t number = 0; number < counts.features.size(); number++) {
    if (scratch.places[number] < 0) continue;
    const FeatureCounts::Feature& feature = counts.features[number];
    const bool wide = isWide(feature, work.rows.prompts);
    const std::size_t place = values.size();
    scratch.places[number] = static_cast<std::int64_t>(place);
    values.resize(place + (wide ? static_cast<std::size_t>(stride) : feature.endSlot - feature.firstSlot), 1.0);
    for (std::uint32_t slot = feature.firstSlot; slot < feature.endSlot; slot++) {
      const auto& [prompt, inRows, inText] = counts.slots[slot];
      const double share = scratch.trained[slot] * inverse[prompt] + inText * ofText[prompt];
      values[place + (wide ? prompt : slot - feature.firstSlot)] = 1.0 + share * feature.scale;
    }
  }
  const auto count = static_cast<std::int64_t>(values.size());
  values.resize((values.size() + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles, 1.0);
  kernels().logarithms(values.data(), count, values.data());
}

inline __attribute__((always_inline)) void addValues(const Work& work, const FeatureCounts& counts,
                                                     const Scratch& scratch, Block& block) {
  const std::int64_t stride = work.shares.stride, prompts = work.rows.prompts;
  eachRun(
      work, counts, block, [&](const FeatureCounts::Run& run, std::int64_t score) __attribute__((always_inline)) {
        if (score < 0) return;
        double* const sums = block.sums.data() + score * stride;
        for (std::uint32_t at = run.begin; at < run.end; at++) {
          const auto& [number, own, count] = counts.entries[at];
          const FeatureCounts::Feature& feature = counts.features[number];
          const double* const values = scratch.values.data() + scratch.places[number];
          const auto times = static_cast<double>(count);
          if (isWide(feature, prompts)) {
            COLLAPSAR_NO_OVERLAP
            for (std::int64_t j = 0; j < stride; j++) sums[j] += times * values[j];
          } else {
            for (std::uint32_t slot = feature.firstSlot; slot < feature.endSlot; slot++) {
              sums[counts.slots[slot].prompt] += times * values[slot - feature.firstSlot];
            }
          }
        }
      });
}

#ifdef COLLAPSAR_AVX2
COLLAPSAR_AVX2 void addAvx2(const Work& work, const FeatureCounts& counts, const Scratch& scratch, Block& block) {
  addValues(work, counts, scratch, block);
}
COLLAPSAR_AVX512 void addAvx512(const Work& work, const FeatureCounts& counts, const Scratch& scratch, Block& block) {
  addValues(work, counts, scratch, block);
}
#endif

void addShard(const Work& work, const FeatureCounts& counts, Scratch& scratch, Block& block) {
  setValues(work, counts, block, scratch);
#ifdef COLLAPSAR_AVX2
  if (activeIsa() == Isa::Avx512) return addAvx512(work, counts, scratch, block);
  if (activeIsa() == Isa::Avx2) return addAvx2(work, counts, scratch, block);
#endif
  addValues(work, counts, scratch, block);
}

std::int64_t textOf(const UsedRows& rows, std::int64_t row) { return rows.promptsKnown ? row + rows.prompt[row] : row; }

double meanOf(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; j++) sum += values[j];
  return sum / static_cast<double>(count);
}

// What the figures need of a row that was scored by its fold.
// terms: [kTemperatures, stride].
void reduceRow(const Work& work, std::int64_t row, const double* scores, double* terms) {
  const UsedRows& rows = work.rows;
  RowScores& out = work.out;
  const std::int64_t prompts = rows.prompts, own = rows.prompt[row];
  const auto features = static_cast<double>(work.texts.features[textOf(rows, row)]);
  // All features cost ln(b/3), where prompts are not known ln(b/2), by prompts ln(2b/3).
  const double all = rows.byPrompts ? work.texts.all / 2 : work.texts.all;
  const double part = rows.byPrompts ? 2.0 / 3.0 : rows.promptsKnown ? 1.0 / 3.0 : 0.5;
  const double base = static_cast<double>(work.base[row].load(std::memory_order_relaxed)) * kBaseUnit +
                      features * (kernels().log(part) - kernels().log(all));
  const double ownScore = scores[own], near = 1e-9 * (1 + std::fabs(base + ownScore));
  std::int32_t above = 0, equal = 0;
  double most = scores[0], others = 0;
  for (std::int64_t j = 0; j < prompts; j++) {
    const double more = scores[j] - ownScore;
    above += more > near;
    equal += std::fabs(more) <= near;
    most = scores[j] > most ? scores[j] : most;
    others += j == own ? 0 : scores[j];
  }
  if (!out.all.empty()) std::copy_n(scores, prompts, out.all.begin() + row * prompts);
  out.above[row] = above;
  out.equal[row] = equal;
  out.excess[row] = (ownScore - others / static_cast<double>(prompts - 1)) / features;
  const std::int64_t stride = work.shares.stride;
  double coolness = 1;  // 1 / temperature
  for (int t = 0; t < kTemperatures; t++, coolness /= 2) {
    for (std::int64_t j = 0; j < stride; j++) {
      const double fall = (scores[std::min(j, prompts - 1)] - most) * coolness;
      // Below e^-700 there is nothing that a sum of at least 1 would notice: e^-800 is 0.
      terms[t * stride + j] = fall < -700.0 ? -800.0 : fall;
    }
  }
  kernels().exponentials(terms, kTemperatures * stride, terms);
  double sums[kTemperatures] = {};
  for (std::int64_t j = 0; j < prompts; j++) {
    for (int t = 0; t < kTemperatures; t++) sums[t] += terms[t * stride + j];
  }
  for (int t = 0; t < kTemperatures; t++) {
    out.ownShare[row * kTemperatures + t] = terms[t * stride + own] / sums[t];
  }
}

// What the half split needs of a row that it tests.
void reduceTested(const Work& work, std::int64_t row, const double* scores) {
  const std::int64_t prompts = work.rows.prompts;
  double* const out = work.out.testedExcess.data() + work.testedAt[row] * prompts;
  const double mean = meanOf(scores, prompts);
  const auto features = static_cast<double>(work.texts.features[textOf(work.rows, row)]);
  for (std::int64_t j = 0; j < prompts; j++) out[j] = (scores[j] - mean) / features;
}

void reduceBlock(const Work& work, const Block& block, double* terms) {
  for (std::int64_t score = block.begin; score < block.end; score++) {
    const std::int64_t row = work.scoredRow[score];
    const double* const ofRow = block.sums.data() + (score - block.begin) * work.shares.stride;
    if (block.part != kHalf) reduceRow(work, row, ofRow, terms);
    if (block.part == kHalf || (work.scoreOf[1].empty() && work.testedAt[row] >= 0)) reduceTested(work, row, ofRow);
  }
}

}  // namespace

Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  std::int64_t scoreBytes, bool keepsAll, RowScores& out, ThreadPool& pool, JobControl& control) {
  const FeatureTexts texts(rows, tokens, promptTokens);
  HashShards shards;
  const Outcome filled = shards.fill(
      texts.features,
      [&](std::int64_t text, std::uint64_t* hashes) {
        const auto [prompt, row] = texts.texts[text];
        const TokenHashes& of = row < 0 ? *promptTokens : tokens;
        const std::int64_t number = row < 0 ? rows.promptText[prompt] : rows.row[row];
        hash.features(of.of(number), of.count(number), hashes);
      },
      pool, control);
  if (filled == Outcome::Cancelled) return filled;

  const auto rowCount = static_cast<std::size_t>(rows.rows);
  out.ownShare.resize(rowCount * kTemperatures);
  out.above.resize(rowCount);
  out.equal.resize(rowCount);
  out.excess.resize(rowCount);
  if (keepsAll) out.all.resize(rowCount * static_cast<std::size_t>(rows.prompts));
  const Shares shares(rows, texts);
  Work work{rows,
            texts,
            shares,
            out,
            {},
            {},
            std::vector<std::int64_t>(rowCount, -1),
            std::vector<std::atomic<std::int64_t>>(rowCount)};
  for (const std::int64_t row : rows.atPosition) {
    if (!rows.byPrompts && rows.place(row) % 2 == 0) continue;
    work.testedAt[row] = static_cast<std::int64_t>(out.testedOwn.size());
    out.testedOwn.push_back(rows.prompt[row]);
  }
  out.testedExcess.resize(out.testedOwn.size() * static_cast<std::size_t>(rows.prompts));

  // With two folds the half split is the second fold's training, and by prompts nothing is trained.
  const bool splits = rows.folds > 2;
  const std::int64_t threads = pool.threads(), scores = rows.rows + (splits ? rows.rows / 2 : 0);
  const std::int64_t blockRows =
      std::clamp<std::int64_t>(kBlockBytes / (shares.stride * 8), 1, (scores + threads - 1) / threads);
  std::vector<Block> blocks;
  work.scoreOf[0].resize(rowCount);
  if (splits) work.scoreOf[1].resize(rowCount, -1);
  for (int part = 0; part <= (splits ? kHalf : rows.folds - 1); part++) {
    if (part >= rows.folds && part != kHalf) continue;
    const auto begin = static_cast<std::int64_t>(work.scoredRow.size());
    for (std::int64_t row = 0; row < rows.rows; row++) {
      if (part == kHalf ? rows.place(row) % 2 == 0 : rows.fold[row] != part) continue;
      work.scoreOf[part == kHalf][row] = static_cast<std::int64_t>(work.scoredRow.size());
      work.scoredRow.push_back(row);
    }
    const auto end = static_cast<std::int64_t>(work.scoredRow.size());
    for (std::int64_t at = begin; at < end; at += blockRows) {
      blocks.push_back({part, at, std::min(end, at + blockRows), {}});
    }
  }

  // Several threads take several shards at a time, and then the rows' blocks.
  const std::int64_t batch = threads == 1 ? 1 : 4 * threads;
  std::vector<FeatureCounts> counts(static_cast<std::size_t>(std::min(batch, shards.count())));
  std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
  // Scores of so many rows at a time as memory is allowed; features are counted again for each lot.
  const auto listed = static_cast<std::int64_t>(texts.all);
  const std::int64_t blockCount = static_cast<std::int64_t>(blocks.size());
  const std::int64_t lot = std::max(threads, scoreBytes / (blockRows * shares.stride * 8));
  for (std::int64_t begun = 0; begun < blockCount; begun += lot) {
    const std::int64_t lotSize = std::min(lot, blockCount - begun);
    for (std::int64_t at = begun; at < begun + lotSize; at++) {
      blocks[at].sums.resize(static_cast<std::size_t>((blocks[at].end - blocks[at].begin) * shares.stride));
    }
    for (auto& base : work.base) base.store(0, std::memory_order_relaxed);
    for (std::int64_t first = 0; first < shards.count(); first += batch) {
      const std::int64_t size = std::min(batch, shards.count() - first);
      const Outcome counted = pool.run(size, control, [&](std::int64_t shard, int) {
        counts[shard].count(shards.of(first + shard), texts, rows, work.base.data());
      });
      if (counted == Outcome::Cancelled) return counted;
      const Outcome scored = pool.run(lotSize, control, [&](std::int64_t block, int worker) {
        for (std::int64_t shard = 0; shard < size; shard++) {
          if (control.cancelled.load(std::memory_order_relaxed)) return;
          addShard(work, counts[shard], scratch[worker], blocks[begun + block]);
        }
      });
      if (scored == Outcome::Cancelled) return scored;
      if (begun == 0) control.doneUnits.fetch_add(listed * size / shards.count(), std::memory_order_relaxed);
    }
    const Outcome reduced = pool.run(lotSize, control, [&](std::int64_t block, int worker) {
      scratch[worker].terms.resize(static_cast<std::size_t>(kTemperatures * shares.stride));
      reduceBlock(work, blocks[begun + block], scratch[worker].terms.data());
      blocks[begun + block].sums = std::vector<double>();
    });
    if (reduced == Outcome::Cancelled) return reduced;
  }
  return Outcome::Done;
}

}  // namespace collapsar
