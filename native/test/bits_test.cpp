// The same bits (docs/reference/metrics.md, Exactness) on every instruction set, with any number of threads, on every
// machine.
//
// One digest covers every output of a fixed set of jobs, another those of logitStats, a third those of inferStep. They
// must be kDigest, kPromptErrorDigest, kLogitDigest and kInferenceDigest wherever this runs; whoever changes the
// arithmetic on purpose puts the printed one here, after it has come out alike on x86-64 and arm64
// (scripts/test-emulated.sh).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "check.h"
#include "engine/gather_scores.h"
#include "engine/inference/inference.h"
#include "engine/isa.h"
#include "engine/logit_stats.h"
#include "engine/score_stats.h"
#include "engine/step_moments.h"
#include "engine/tokens/sum_tokens.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr std::uint64_t kDigest = 0xa311278b0d5219dcu;
constexpr std::uint64_t kPromptErrorDigest = 0xd2baab270d3574d3u;
constexpr std::uint64_t kLogitDigest = 0x313e41d98b930ac2u;
constexpr std::uint64_t kInferenceDigest = 0x1da4bbd521fb66ecu;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Digest {
 public:
  void add(const void* data, std::size_t size) {  // FNV-1a
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; i++) value_ = (value_ ^ bytes[i]) * 0x100000001b3u;
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

void addTokenSums(Digest& digest, ThreadPool& pool) {
  Numbers numbers(61);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t tokens : {1, 40, 5000}) {
      const std::int64_t prompts = tokens > 1000 ? 3 : 9, rows = tokens > 1000 ? 5 : 21;
      Elements elements(dtype, prompts * rows * tokens);
      for (std::int64_t i = 0; i < prompts * rows * tokens; i++) elements.set(i, -3 * numbers.uniform());
      elements.set(7, std::nan(""));
      elements.set(tokens * 2, -kInfinity);
      std::vector<std::int64_t> lengths;
      for (std::int64_t r = 0; r < rows; r++) lengths.push_back(numbers.below(tokens + 1));
      const std::int64_t strides[][3] = {
          {rows * tokens, tokens, 1}, {1, prompts, prompts * rows}, {tokens, prompts * tokens, 1}};
      for (const auto& stride : strides) {
        const TokenScores scores{elements.data(), dtype,     prompts,        rows,   stride[0],
                                 stride[1],       stride[2], lengths.data(), nullptr};
        std::vector<double> sums(static_cast<std::size_t>(prompts * rows));
        JobControl control;
        InvalidToken invalid;
        sumTokens(scores, {sums.data(), prompts, nullptr}, pool, control, &invalid);
        digest.add(sums);
        digest.add(&invalid, sizeof invalid);
      }
    }
  }
}

void addScoreStats(Digest& digest, ThreadPool& pool) {
  Numbers numbers(62);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 5, 16, 37, 700, 4500}) {
      for (const double spread : {0.5, 20.0}) {
        const std::int64_t rows = columns > 100 ? 6 : 40;
        Elements elements(dtype, rows * columns);
        for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, -90 + spread * numbers.bell());
        for (std::int64_t i = 0; i < rows * columns; i++) {  // some rows with special values
          const std::int64_t row = i / columns;
          if (row % 5 == 1 && numbers.below(3) == 0) elements.set(i, -kInfinity);
          if (row % 10 == 3 && numbers.below(columns) == 0) elements.set(i, std::nan(""));
          if (row % 10 == 4 && numbers.below(columns) == 0) elements.set(i, kInfinity);
        }
        std::vector<std::int32_t> own, signature;
        std::vector<std::int64_t> lengths;
        for (std::int64_t r = 0; r < rows; r++) {
          own.push_back(static_cast<std::int32_t>(numbers.below(columns)));
          lengths.push_back(numbers.below(1000));
        }
        for (std::int64_t c = 0; c < columns; c++) {
          signature.push_back(static_cast<std::int32_t>(numbers.below((columns + 1) / 2)));
        }
        const int topK = static_cast<int>(std::min<std::int64_t>(columns, kMaxTopK));
        for (const bool distinct : {true, false}) {
          const ScoreMatrix matrix{elements.data(), dtype, rows, columns, columns, 1};
          RowStatsBuffers out(rows, topK);
          const ScoreRows labels{own.data(), lengths.data(), distinct ? nullptr : signature.data()};
          JobControl control;
          scoreStats(matrix, labels, out.stats, pool, control);
          digest.add(out.doubles);
          digest.add(out.indices);
          const StepMoments moments = stepMoments(out.stats, labels.lengths, rows);
          digest.add(&moments, sizeof moments);
        }
        std::vector<double> gathered(static_cast<std::size_t>(rows * rows));
        JobControl control;
        gatherScores({elements.data(), dtype, rows, columns, columns, 1}, nullptr, rows, own.data(), rows,
                     gathered.data(), pool, control);
        for (double& x : gathered) x = x == x ? x : -1.0;  // which NaN a conversion gives is the machine's affair
        digest.add(gathered);
      }
    }
  }
}

void addLogitStats(Digest& digest, ThreadPool& pool) {
  Numbers numbers(64);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 37, 300, 5000, 40000}) {
      for (const double spread : {0.5, 6.0, 300.0}) {
        const std::int64_t rows = columns > 10000 ? 3 : columns > 1000 ? 6 : 30;
        Elements elements(dtype, rows * columns);
        for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, 3 + spread * numbers.bell());
        for (std::int64_t i = 0; i < rows * columns; i++) {  // some rows with special values
          const std::int64_t row = i / columns;
          if (row % 3 == 1 && numbers.below(3) == 0) elements.set(i, -kInfinity);
          if (row % 10 == 3 && numbers.below(columns) == 0) elements.set(i, std::nan(""));
          if (row % 10 == 4 && numbers.below(columns) == 0) elements.set(i, kInfinity);
        }
        std::vector<std::int32_t> targets;
        std::vector<std::uint8_t> mask;
        for (std::int64_t r = 0; r < rows; r++) {
          targets.push_back(static_cast<std::int32_t>(numbers.below(columns)));
          mask.push_back(numbers.below(8) != 0);
        }
        const std::int64_t begins[] = {0, rows / 3}, ends[] = {rows / 3, rows};
        for (const double temperature : {1.0, 0.7}) {
          for (const bool transposed : {false, true}) {
            std::vector<double> doubles(static_cast<std::size_t>(rows) * 3), means(4);
            std::vector<std::int32_t> indices(static_cast<std::size_t>(rows) * 3);
            double* const d = doubles.data();
            std::int32_t* const i = indices.data();
            JobControl control;
            logitStats({elements.data(), dtype, rows, columns, transposed ? 1 : columns, transposed ? rows : 1},
                       {targets.data(), mask.data(), temperature},
                       {d, d + rows, d + 2 * rows, i, i + rows, i + 2 * rows},
                       {2, begins, ends, means.data(), means.data() + 2}, pool, control);
            digest.add(doubles);
            digest.add(indices);
            digest.add(means);
          }
        }
      }
    }
  }
}

// overPrompts: gets the figures over different prompts, with their errors.
void addInference(Digest& digest, ThreadPool& pool, Digest* overPrompts = nullptr) {
  Numbers numbers(65);
  for (const std::int64_t columns : {3, 9, 40}) {
    for (const double spread : {0.3, 4.0, 60.0}) {
      const std::int64_t rows = 5 * columns;
      std::vector<double> scores;
      std::vector<std::int32_t> own, signature;
      std::vector<std::int64_t> lengths;
      for (std::int64_t r = 0; r < rows; r++) {
        own.push_back(static_cast<std::int32_t>(r % 7 == 0 ? numbers.below(columns) : r * columns / rows));
        lengths.push_back(numbers.below(40));
        for (std::int64_t p = 0; p < columns; p++) {
          const bool impossible = p != own.back() && (r + p) % 11 == 0;
          scores.push_back(impossible ? -kInfinity : -30 + spread * numbers.bell() + (p == own.back() ? spread : 0));
        }
      }
      for (std::int32_t c = 0; c < columns; c++) signature.push_back(c % 4 == 3 ? c - 1 : c);
      for (const bool distinct : {true, false}) {
        const ScoreRows labels{own.data(), lengths.data(), distinct ? nullptr : signature.data()};
        RowStatsBuffers stats(rows, static_cast<int>(std::min<std::int64_t>(columns, kMaxTopK)));
        JobControl control;
        scoreStats({scores.data(), DType::Float64, rows, columns, columns, 1}, labels, stats.stats, pool, control);
        Inference out{};
        inferStep({scores.data(), rows, columns, labels, &stats.stats, 70, 5}, out, pool, control);
        for (const FigureInference& figure : out.figures) {
          for (const double x : {figure.estimate, figure.batchLow, figure.batchHigh, figure.batchError,
                                 figure.populationLow, figure.populationHigh, figure.populationError, figure.pValue}) {
            const double known = x == x ? x : -1.0;  // which NaN it is is the machine's affair
            digest.add(&known, sizeof known);
          }
        }
        for (const bool flag : {out.withinVariance, out.calibrated}) digest.add(&flag, sizeof flag);
        std::vector<SubsetInference> subsets(out.among.begin(), out.among.end());
        subsets.push_back(out.margin);
        for (const SubsetInference& subset : subsets) {
          for (const double x : {subset.estimate, subset.batchLow, subset.batchHigh, subset.batchError}) {
            const double known = x == x ? x : -1.0;
            digest.add(&known, sizeof known);
          }
        }
        if (overPrompts == nullptr) continue;
        std::vector<OverPrompts> all{out.overPrompts};
        for (const AmongInference& among : out.among) all.push_back(among.overPrompts);
        for (const OverPrompts& over : all) {
          for (const double x : {over.estimate, over.error}) {
            const double known = x == x ? x : -1.0;
            overPrompts->add(&known, sizeof known);
          }
        }
      }
    }
  }
}

std::uint64_t digestWith(int threads) {
  ThreadPool pool(threads);
  Digest digest;
  addTokenSums(digest, pool);
  addScoreStats(digest, pool);
  return digest.value();
}

// Thread counts to try: fewer where an emulator makes each one dear (scripts/test-emulated.sh), for those are proven
// natively.
int threadsUpTo(int most) {
  const char* limit = std::getenv("COLLAPSAR_TEST_THREADS");
  return limit == nullptr ? most : std::clamp(std::atoi(limit), 1, most);
}

}  // namespace

TEST_CASE("one digest on every instruction set and with any number of threads") {
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!isaSupported(isa)) {
      CHECK(!forceIsa(isaName(isa)));
      continue;
    }
    CHECK(forceIsa(isaName(isa)));
    CHECK(activeIsa() == isa);
    for (int threads = 1; threads <= threadsUpTo(5); threads++) {
      const std::uint64_t digest = digestWith(threads);
      CHECK_EQUAL(digest, kDigest, isaName(isa), ", ", threads, " threads");
      if (threads == 1) std::cout << isaName(isa) << ": 0x" << std::hex << digest << std::dec << "\n";
    }
  }
}

TEST_CASE("errors over prompts: one digest on every instruction set and with any number of threads") {
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (int threads = 1; threads <= threadsUpTo(3); threads++) {
      ThreadPool pool(threads);
      Digest others, digest;
      addInference(others, pool, &digest);
      CHECK_EQUAL(digest.value(), kPromptErrorDigest, isaName(isa), ", ", threads, " threads");
      if (threads == 1) std::cout << isaName(isa) << ", prompts: 0x" << std::hex << digest.value() << std::dec << "\n";
    }
  }
}

TEST_CASE("logitStats: one digest on every instruction set and with any number of threads") {
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (int threads = 1; threads <= threadsUpTo(4); threads++) {
      ThreadPool pool(threads);
      Digest digest;
      addLogitStats(digest, pool);
      CHECK_EQUAL(digest.value(), kLogitDigest, isaName(isa), ", ", threads, " threads");
      if (threads == 1) std::cout << isaName(isa) << ", logits: 0x" << std::hex << digest.value() << std::dec << "\n";
    }
  }
}

TEST_CASE("inferStep: one digest on every instruction set and with any number of threads") {
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (int threads = 1; threads <= threadsUpTo(4); threads++) {
      ThreadPool pool(threads);
      Digest digest;
      addInference(digest, pool);
      CHECK_EQUAL(digest.value(), kInferenceDigest, isaName(isa), ", ", threads, " threads");
      if (threads == 1)
        std::cout << isaName(isa) << ", inference: 0x" << std::hex << digest.value() << std::dec << "\n";
    }
  }
}

TEST_CASE("rows may come in any order, and in any number of jobs") {
  Numbers numbers(63);
  const std::int64_t rows = 200, columns = 70;
  for (const DType dtype : kAllTypes) {
    Elements elements(dtype, rows * columns), shuffled(dtype, rows * columns);
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size() - 1; i > 0; i--) {
      std::swap(order[i], order[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(i) + 1))]);
    }
    std::vector<std::int32_t> own(static_cast<std::size_t>(rows)), ownShuffled(own);
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows)), lengthsShuffled(lengths);
    for (std::size_t r = 0; r < order.size(); r++) {
      own[r] = static_cast<std::int32_t>(numbers.below(columns));
      lengths[r] = numbers.below(30);
    }
    for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, -20 + 2 * numbers.bell());
    for (std::int64_t r = 0; r < rows; r++) {
      const std::int64_t from = order[static_cast<std::size_t>(r)];
      ownShuffled[static_cast<std::size_t>(r)] = own[static_cast<std::size_t>(from)];
      lengthsShuffled[static_cast<std::size_t>(r)] = lengths[static_cast<std::size_t>(from)];
      for (std::int64_t c = 0; c < columns; c++) shuffled.set(r * columns + c, elements.get(from * columns + c));
    }
    RowStatsBuffers whole(rows, 3), parts(rows, 3);
    ThreadPool pool(2);
    JobControl control;
    scoreStats({elements.data(), dtype, rows, columns, columns, 1}, {own.data(), lengths.data(), nullptr}, whole.stats,
               pool, control);
    for (std::int64_t begin = 0; begin < rows;) {
      const std::int64_t count = std::min<std::int64_t>(1 + numbers.below(40), rows - begin);
      const auto* data = static_cast<const unsigned char*>(shuffled.data()) +
                         begin * columns * static_cast<std::int64_t>(sizeOf(dtype));
      RowStats out = parts.stats;
      for (double** field : {&out.matchedSeq, &out.matchedToken, &out.marginalSeq, &out.marginalToken,
                             &out.looMarginalSeq, &out.looMarginalToken, &out.posteriorEntropy}) {
        *field += begin;
      }
      for (std::int32_t** field : {&out.argmax, &out.rankAbove, &out.rankEqual, &out.hitRank}) *field += begin;
      out.topColumns += begin * out.topK;
      JobControl partControl;
      scoreStats({data, dtype, count, columns, columns, 1},
                 {ownShuffled.data() + begin, lengthsShuffled.data() + begin, nullptr}, out, pool, partControl);
      begin += count;
    }
    for (std::int64_t r = 0; r < rows; r++) {
      const std::int64_t from = order[static_cast<std::size_t>(r)];
      for (std::int64_t field = 0; field < 7; field++) {
        CHECK_EQUAL(parts.doubles[static_cast<std::size_t>(field * rows + r)],
                    whole.doubles[static_cast<std::size_t>(field * rows + from)]);
      }
      for (std::int64_t field = 0; field < 4; field++) {
        CHECK_EQUAL(parts.indices[static_cast<std::size_t>(field * rows + r)],
                    whole.indices[static_cast<std::size_t>(field * rows + from)]);
      }
      for (std::int64_t k = 0; k < 3; k++) {
        CHECK_EQUAL(parts.stats.topColumns[r * 3 + k], whole.stats.topColumns[from * 3 + k]);
      }
    }
    const StepMoments a = stepMoments(whole.stats, lengths.data(), rows);
    const StepMoments b = stepMoments(parts.stats, lengthsShuffled.data(), rows);
    CHECK(std::memcmp(&a, &b, sizeof a) == 0);
  }
}

int main() { return runCases(); }
