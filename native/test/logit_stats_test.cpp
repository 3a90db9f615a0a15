// logitStats against long double: random and adversarial rows of every type, size and layout, full vocabularies, and
// the golden numerics, on each instruction set.
#include "engine/logit_stats.h"

#include <algorithm>
#include <thread>

#include "check.h"
#include "engine/isa.h"
#include "random_numbers.h"
#include "test/references/golden_numerics.h"
#include "test/references/logits.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const char* const kTypeNames[] = {"float64", "float32", "float16", "bfloat16"};

// Memory for every field, poisoned.
struct Buffers {
  explicit Buffers(std::int64_t rows)
      : doubles(static_cast<std::size_t>(rows) * 3, -777.0), indices(static_cast<std::size_t>(rows) * 3, -7) {
    stats = {doubles.data(), doubles.data() + rows, doubles.data() + 2 * rows,
             indices.data(), indices.data() + rows, indices.data() + 2 * rows};
  }
  std::vector<double> doubles;
  std::vector<std::int32_t> indices;
  LogitStats stats;
};

double ulp(double x) { return std::abs(x) > 1e-290 ? std::nextafter(std::abs(x), kInfinity) - std::abs(x) : 0x1p-1074; }

// float64: 4 ulp, and never less than those of 1, where the value is a sum that cancels.
double tolerance(bool wide, long double value) {
  if (!std::isfinite(value)) return 0;
  const double size = static_cast<double>(std::abs(value));
  return wide ? 4 * ulp(std::max(size, 1.0)) : 3e-7 + size * 0x1p-24;
}

// The largest errors met, for the summary line.
struct Errors {
  double logsumexp = 0, entropy = 0, targetLogprob = 0;
} worstNarrow, worstWide;  // in gates; in ulp

void note(double& worst, double actual, long double expected, double unit) {
  if (std::isfinite(actual)) worst = std::max(worst, static_cast<double>(std::abs(actual - expected)) / unit);
}

void checkRow(bool wide, const std::vector<double>& row, std::int32_t target, double temperature,
              const LogitStats& stats, std::int64_t r, const char* what) {
  const LogitReference expected = referenceLogits(row, target, temperature);
  const char* const isa = isaName(activeIsa());
  const double gate = tolerance(wide, expected.logsumexp), gateTarget = tolerance(wide, expected.targetLogprob);
  const double gateEntropy = wide ? 4 * ulp(std::max(1.0, static_cast<double>(expected.entropy))) : 1e-6;
  CHECK_NEAR(stats.logsumexp[r], static_cast<double>(expected.logsumexp), gate, what, " row ", r, " ", isa);
  CHECK_NEAR(stats.entropy[r], static_cast<double>(expected.entropy), gateEntropy, what, " row ", r, " ", isa);
  CHECK_NEAR(stats.targetLogprob[r], static_cast<double>(expected.targetLogprob), gateTarget, what, " row ", r, " ",
             isa);
  CHECK_EQUAL(stats.argmax[r], expected.argmax, what, " row ", r, " ", isa);
  CHECK_EQUAL(stats.rankAbove[r], expected.rankAbove, what, " row ", r, " ", isa);
  CHECK_EQUAL(stats.rankEqual[r], expected.rankEqual, what, " row ", r, " ", isa);
  if (std::isfinite(stats.entropy[r])) CHECK(stats.entropy[r] >= 0);
  if (std::isfinite(stats.targetLogprob[r])) CHECK(stats.targetLogprob[r] <= 0);

  Errors& worst = wide ? worstWide : worstNarrow;
  note(worst.logsumexp, stats.logsumexp[r], expected.logsumexp, wide ? gate / 4 : gate);
  note(worst.entropy, stats.entropy[r], expected.entropy, wide ? gateEntropy / 4 : gateEntropy);
  note(worst.targetLogprob, stats.targetLogprob[r], expected.targetLogprob, wide ? gateTarget / 4 : gateTarget);
}

// Dense rows; runs on every instruction set that there is, with as many threads as make the rows shared and not.
void checkRows(const Elements& elements, std::int64_t rows, std::int64_t columns, Numbers& numbers, double temperature,
               const char* what) {
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < rows; r++) targets.push_back(static_cast<std::int32_t>(numbers.below(columns)));
  Buffers first(rows);
  bool any = false;
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (const int threads : {1, 2}) {
      Buffers out(rows);
      ThreadPool pool(threads);
      JobControl control;
      CHECK(logitStats({elements.data(), elements.dtype(), rows, columns, columns, 1},
                       {targets.data(), nullptr, temperature}, out.stats, {}, pool, control) == Outcome::Done);
      CHECK_EQUAL(control.doneUnits.load(), rows * columns);
      if (!any) {
        for (std::int64_t r = 0; r < rows; r++) {
          std::vector<double> row;
          for (std::int64_t c = 0; c < columns; c++) row.push_back(elements.get(r * columns + c));
          checkRow(elements.dtype() == DType::Float64, row, targets[static_cast<std::size_t>(r)], temperature,
                   out.stats, r, what);
        }
        first.doubles = out.doubles;
        first.indices = out.indices;
        any = true;
        continue;
      }
      // Bits, so that the comparison holds for NaN too.
      CHECK(std::memcmp(out.doubles.data(), first.doubles.data(), first.doubles.size() * sizeof(double)) == 0);
      for (std::size_t i = 0; i < first.indices.size(); i++) {
        CHECK_EQUAL(out.indices[i], first.indices[i], what, " ", i, " of ", rows, " x ", columns, " ", isaName(isa));
      }
    }
  }
  CHECK(any);
}

}  // namespace

TEST_CASE("random rows of every size and type") {
  Numbers numbers(71);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1,   2,   3,    15,   16,   17,   63,   64,    65,    255,   256,   257,
                                       511, 513, 1000, 2047, 2048, 2049, 5000, 16385, 32767, 32768, 32769, 40001}) {
      for (const double spread : {0.3, 4.0, 40.0}) {
        const std::int64_t rows = columns > 1000 ? 2 : 9;
        Elements elements(dtype, rows * columns);
        for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, -1 + spread * numbers.bell());
        checkRows(elements, rows, columns, numbers, 1.0, kTypeNames[static_cast<int>(dtype)]);
      }
    }
  }
}

TEST_CASE("temperatures") {
  Numbers numbers(72);
  for (const DType dtype : kAllTypes) {
    for (const double temperature :
         {0.5, 0.7, 1.3, 2.0, 0.01, 1e-6, 100.0, 1e6, kLowestTemperature, kHighestTemperature}) {
      for (const double spread : {1.0, 6.0}) {
        Elements elements(dtype, 3 * 5000);
        for (std::int64_t i = 0; i < 3 * 5000; i++) elements.set(i, 2 + spread * temperature * numbers.bell());
        if (dtype == DType::Float16 && temperature > 1e4) continue;
        checkRows(elements, 3, 5000, numbers, temperature, "temperature");
      }
    }
  }
}

TEST_CASE("temperatures so low that the maximum alone counts, and its last digits") {
  Numbers numbers(17);
  for (const DType dtype : kAllTypes) {
    for (const double temperature : {1e-18, 1e-17, 1e-16, 1e-14, 1e-12, 1e-10, 1e-6}) {
      Elements elements(dtype, 4 * 300);
      for (std::int64_t i = 0; i < 4 * 300; i++) elements.set(i, (i % 2 == 0 ? 3 : 0.3) * numbers.bell());
      checkRows(elements, 4, 300, numbers, temperature, "low temperature");
    }
  }
}

TEST_CASE("offsets and scales far from zero, with -inf among the logits") {
  Numbers numbers(73);
  for (const DType dtype : kAllTypes) {
    for (const double offset : {1000.0, -1000.0, 1.0, 30000.0, -3e-5}) {
      for (const double spread : {1e-4, 1.0, 8.0, 1000.0}) {
        Elements elements(dtype, 4 * 3000);
        for (std::int64_t i = 0; i < 4 * 3000; i++) {
          const bool hidden = i >= 2 * 3000 && numbers.below(2) == 0;
          elements.set(i, hidden ? -kInfinity : offset + spread * numbers.bell());
        }
        checkRows(elements, 4, 3000, numbers, 1.0, "offset");
      }
    }
  }
}

TEST_CASE("a row with one finite logit has exactly that, and entropy 0") {
  Numbers numbers(76);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 2, 17, 300, 33000, 70000}) {
      for (const double temperature : {1.0, 0.7, 3.0, 1e-3}) {
        for (const double spread : {1.0, 30.0, 1e4}) {
          const std::int64_t rows = columns > 1000 ? 2 : 40;
          Elements elements(dtype, rows * columns);
          std::vector<std::int32_t> targets;
          for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, -kInfinity);
          for (std::int64_t r = 0; r < rows; r++) {
            targets.push_back(static_cast<std::int32_t>(numbers.below(columns)));
            elements.set(r * columns + targets.back(), spread * numbers.bell());
          }
          for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
            if (!forceIsa(isaName(isa))) continue;
            Buffers out(rows);
            ThreadPool pool(2);
            JobControl control;
            logitStats({elements.data(), dtype, rows, columns, columns, 1}, {targets.data(), nullptr, temperature},
                       out.stats, {}, pool, control);
            for (std::int64_t r = 0; r < rows; r++) {
              const double logit = elements.get(r * columns + targets[static_cast<std::size_t>(r)]);
              CHECK_EQUAL(out.stats.logsumexp[r], logit / temperature, isaName(isa), " ", columns);
              CHECK_EQUAL(out.stats.entropy[r], 0.0, isaName(isa), " ", columns);
              CHECK_EQUAL(out.stats.targetLogprob[r], 0.0, isaName(isa), " ", columns);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("very large and very small numbers") {
  Numbers numbers(74);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const double largest = dtype == DType::Float64 ? 1e308 : 1e38;
    for (const double temperature : {1.0, 0.5}) {
      Elements elements(dtype, 8 * 40);
      for (std::int64_t c = 0; c < 40; c++) {
        elements.set(c, c % 2 == 0 ? largest : -largest);
        elements.set(40 + c, -largest);
        elements.set(80 + c, c == 9 ? 0.0 : -largest);
        elements.set(120 + c, c == 9 ? -largest : -1e-30 * static_cast<double>(c));
        elements.set(160 + c, -1e6 + numbers.bell());
        elements.set(200 + c, c % 2 == 0 ? 0.0 : -0.0);
        elements.set(240 + c, 0x1p20 + 0.25 * static_cast<double>(c));
        elements.set(280 + c, 720000.0 + 0.25 * static_cast<double>(c));
      }
      checkRows(elements, 8, 40, numbers, temperature, "extreme");
    }
  }
}

TEST_CASE("special values stand anywhere") {
  Numbers numbers(75);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 2, 5, 16, 33, 600, 2100, 17000}) {
      const std::int64_t rows = columns > 10000 ? 20 : 40;
      Elements elements(dtype, rows * columns);
      for (std::int64_t r = 0; r < rows; r++) {
        const double rarity = numbers.uniform();
        for (std::int64_t c = 0; c < columns; c++) {
          double x = -5 + 5 * numbers.bell();
          if (numbers.uniform() < rarity * 0.7) x = -kInfinity;
          if (r % 4 == 1 && numbers.uniform() < 2.0 / static_cast<double>(columns)) x = kInfinity;
          if (r % 4 >= 2 && numbers.uniform() < 2.0 / static_cast<double>(columns)) x = kNaN;
          if (r % 4 == 3 && numbers.uniform() < 0.2) x = kInfinity;
          if (r == 4) x = -kInfinity;
          if (r == 8) x = c % 3 == 0 ? kNaN : -kInfinity;
          if (r == 12) x = kNaN;
          if (r == 16) x = kInfinity;
          if (r == 0) x = c == columns / 2 ? -3.5 : -kInfinity;
          elements.set(r * columns + c, x);
        }
      }
      checkRows(elements, rows, columns, numbers, 1.0, kTypeNames[static_cast<int>(dtype)]);
      if (kSanitized && columns > 10000) continue;
      checkRows(elements, rows, columns, numbers, 0.8, kTypeNames[static_cast<int>(dtype)]);
    }
  }
}

TEST_CASE("a NaN is found whatever its bits, wherever it stands") {
  Numbers numbers(76);
  for (const std::uint64_t bits : {0x7fc00001u, 0x7f800001u, 0xffffffffu, 0x7f80007fu}) {
    for (const std::int64_t at : {0, 7, 299, 4000, 4999}) {
      Elements elements(DType::Float32, 5000);
      for (std::int64_t c = 0; c < 5000; c++) elements.set(c, -0.01 * static_cast<double>(c));
      elements.setBits(at, bits);
      checkRows(elements, 1, 5000, numbers, 1.0, "NaN bits");
      checkRows(elements, 1, 5000, numbers, 3.0, "NaN bits");
    }
  }
}

TEST_CASE("NaN and +inf in any leaf of few rows, which threads share") {
  Numbers numbers(84);
  const std::int64_t leaf = 32768, columns = 3 * leaf + 1700;
  for (const DType dtype : kAllTypes) {
    if (kSanitized && dtype != DType::BFloat16) continue;
    for (const double special : {kNaN, kInfinity}) {
      Elements elements(dtype, 5 * columns);
      for (std::int64_t i = 0; i < 5 * columns; i++) elements.set(i, 3 * numbers.bell());
      for (std::int64_t row = 0; row < 4; row++) elements.set(row * columns + leaf * row + 77, special);
      checkRows(elements, 5, columns, numbers, 1.0, "special value of a leaf");
    }
  }
}

TEST_CASE("very large numbers that rise or fall from leaf to leaf, and within one") {
  Numbers numbers(85);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const double largest = dtype == DType::Float64 ? 1e308 : 1e38;
    const std::int64_t columns = 40000;
    Elements elements(dtype, 5 * columns);
    for (std::int64_t c = 0; c < columns; c++) {
      elements.set(c, c < 32768 ? -largest : largest);
      elements.set(columns + c, c < 32768 ? largest : -largest);
      elements.set(2 * columns + c, c < 39000 ? -largest : -5.0);
      elements.set(3 * columns + c, c < 17000 ? -kInfinity : c < 33000 ? -largest : -0.5 * largest);
      elements.set(4 * columns + c, c < 1000 ? -largest : largest);
    }
    for (const double temperature : {1.0, 0.5}) checkRows(elements, 5, columns, numbers, temperature, "far apart");
  }
}

TEST_CASE("ties go to the lowest column") {
  Numbers numbers(77);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {4, 40, 3000, 33000}) {
      Elements elements(dtype, 3 * columns);
      for (std::int64_t i = 0; i < 3 * columns; i++) elements.set(i, 2.0 - static_cast<double>(numbers.below(4)));
      checkRows(elements, 3, columns, numbers, 1.0, "ties");
    }
  }
}

TEST_CASE("rising and falling rows, whose maximum moves from run to run and from leaf to leaf") {
  Numbers numbers(78);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const std::int64_t columns = 70000;
    Elements elements(dtype, 8 * columns);
    for (std::int64_t c = 0; c < columns; c++) {
      const double x = static_cast<double>(c);
      elements.set(c, 0.001 * x - 20);
      elements.set(columns + c, -0.001 * x);
      elements.set(2 * columns + c, 0.05 * x);
      elements.set(3 * columns + c, c < 35000 ? -kInfinity : 7 * std::sin(x));
      elements.set(4 * columns + c, 20.0 * static_cast<double>(c / 32768) + std::sin(x));
      elements.set(5 * columns + c, 20.0 * static_cast<double>(c / 1024 % 7) + std::sin(x));
      elements.set(6 * columns + c, c < 20000 ? std::sin(x) : -kInfinity);
      elements.set(7 * columns + c, c < 32768 ? 300.0 + std::sin(x) : c < 65536 ? std::sin(x) : -kInfinity);
    }
    checkRows(elements, 8, columns, numbers, 1.0, "slope");
  }
}

TEST_CASE("many like terms beside a far maximum: their rounding errors must not add up") {
  Numbers numbers(79);
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    for (const double below : {1.0, 7.7, 10.0, 11.5, 13.8}) {
      for (const double offset : {0.0, -0.123456, 13.9, -77.7}) {
        const std::int64_t columns = 200000;
        Elements elements(dtype, columns);
        for (std::int64_t c = 0; c < columns; c++) elements.set(c, offset - (c == 110000 ? 0.0 : below));
        checkRows(elements, 1, columns, numbers, 1.0, "one far above");
      }
    }
  }
}

TEST_CASE("small terms that a lane loses beside a leader of their run, or beside a larger one that follows") {
  Numbers numbers(78);
  for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
    for (const std::int64_t columns : {255, 256, 512, 1024, 1535, 4096, 33000}) {
      for (const double floor : {-11.0, -13.0, -14.5, -16.0, -16.9, -17.5, -18.05, -19.0}) {
        // One leader; one that is met before a larger one of the next runs; some anywhere.
        Elements elements(dtype, 3 * columns);
        for (std::int64_t i = 0; i < 3 * columns; i++) elements.set(i, floor);
        elements.set(0, 0);
        for (std::int64_t i = 0; i < columns; i += 256) elements.set(columns + i, -3.8 + 0.001 * (i % 7));
        elements.set(columns + columns / 2, 0);
        for (int leader = 0; leader < 4; leader++) {
          elements.set(2 * columns + numbers.below(columns), -4.0 * numbers.between(0, 1));
        }
        checkRows(elements, 3, columns, numbers, numbers.between(0.9, 1.1), "leaders");
        checkRows(elements, 3, columns, numbers, 1.0, "leaders");
      }
    }
  }
}

TEST_CASE("whole vocabularies") {
  Numbers numbers(80);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {151936, 1 << 20}) {
      if (kSanitized && columns > 200000) continue;
      Elements elements(dtype, columns);
      for (const double spread : {0.01, 3.0}) {
        for (std::int64_t c = 0; c < columns; c++) elements.set(c, 1 + spread * numbers.bell());
        checkRows(elements, 1, columns, numbers, 1.0, kTypeNames[static_cast<int>(dtype)]);
        if (columns < 200000) checkRows(elements, 1, columns, numbers, 0.7, kTypeNames[static_cast<int>(dtype)]);
      }
    }
  }
}

TEST_CASE("single columns and confident rows come out exactly") {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 100, 5000, 1 << 20}) {
      Elements elements(dtype, columns);
      for (std::int64_t c = 0; c < columns; c++) elements.set(c, -kInfinity);
      for (const std::int64_t at : {std::int64_t{0}, columns / 2}) {
        elements.set(0, -kInfinity);
        elements.set(at, 13.625);
        const std::int32_t target = static_cast<std::int32_t>(at);
        Buffers out(1);
        ThreadPool pool(1);
        JobControl control;
        logitStats({elements.data(), dtype, 1, columns, columns, 1}, {&target, nullptr, 1.0}, out.stats, {}, pool,
                   control);
        CHECK_NEAR(*out.stats.logsumexp, 13.625, 4e-15);
        CHECK_EQUAL(*out.stats.entropy, 0.0);
        CHECK_NEAR(*out.stats.targetLogprob, 0.0, 1e-15);
      }
    }
  }
}

TEST_CASE("strides may be negative, zero, or leave gaps") {
  Numbers numbers(81);
  const std::int64_t rows = 37, columns = 2500, size = 400000;
  for (const DType dtype : kAllTypes) {
    Elements elements(dtype, size);
    for (std::int64_t i = 0; i < size; i++) elements.set(i, 3 * numbers.bell());
    struct Layout {
      std::int64_t base, rowStride, columnStride;
    };
    for (const Layout layout : {Layout{rows * columns - 1, -columns, -1},
                                {0, 3, 4 * rows},
                                {5, 2 * columns + 3, 2},
                                {9, 0, 1},
                                {9, 1, 0},
                                {9, 0, 0},
                                {200000, -1, 60},
                                {9, 3001, 1}}) {
      std::vector<std::int32_t> targets;
      Elements dense(dtype, rows * columns);
      for (std::int64_t r = 0; r < rows; r++) {
        targets.push_back(static_cast<std::int32_t>(numbers.below(columns)));
        for (std::int64_t c = 0; c < columns; c++) {
          dense.set(r * columns + c, elements.get(layout.base + r * layout.rowStride + c * layout.columnStride));
        }
      }
      const LogitRows labels{targets.data(), nullptr, 1.0};
      const LogitMatrix view{
          static_cast<const unsigned char*>(elements.data()) + layout.base * static_cast<std::int64_t>(sizeOf(dtype)),
          dtype,
          rows,
          columns,
          layout.rowStride,
          layout.columnStride};
      Buffers strided(rows), plain(rows);
      ThreadPool pool(3);
      JobControl a, b;
      logitStats(view, labels, strided.stats, {}, pool, a);
      logitStats({dense.data(), dtype, rows, columns, columns, 1}, labels, plain.stats, {}, pool, b);
      CHECK(strided.doubles == plain.doubles);
      CHECK(strided.indices == plain.indices);
    }
  }
}

TEST_CASE("fields that are not wanted are not needed, nor are targets") {
  Numbers numbers(82);
  const std::int64_t rows = 5, columns = 20000;
  Elements elements(DType::Float32, rows * columns);
  for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, 3 * numbers.bell());
  const std::int32_t targets[] = {0, 1, 2, 3, 4};
  Buffers full(rows);
  ThreadPool pool(2);
  const LogitMatrix view{elements.data(), DType::Float32, rows, columns, columns, 1};
  JobControl a, b;
  logitStats(view, {targets, nullptr, 1.0}, full.stats, {}, pool, a);
  const auto whole = static_cast<std::size_t>(rows);
  for (double* LogitStats::*field : {&LogitStats::logsumexp, &LogitStats::entropy, &LogitStats::targetLogprob}) {
    std::vector<double> alone(whole);
    LogitStats only{};
    only.*field = alone.data();
    JobControl control;
    const std::int32_t* const needed = field == &LogitStats::targetLogprob ? targets : nullptr;
    CHECK(logitStats(view, {needed, nullptr, 1.0}, only, {}, pool, control) == Outcome::Done);
    for (std::size_t r = 0; r < whole; r++) CHECK_EQUAL(alone[r], (full.stats.*field)[r]);
  }
  for (std::int32_t* LogitStats::*field : {&LogitStats::argmax, &LogitStats::rankAbove, &LogitStats::rankEqual}) {
    std::vector<std::int32_t> alone(whole);
    LogitStats only{};
    only.*field = alone.data();
    JobControl control;
    const std::int32_t* const needed = field == &LogitStats::argmax ? nullptr : targets;
    CHECK(logitStats(view, {needed, nullptr, 1.0}, only, {}, pool, control) == Outcome::Done);
    for (std::size_t r = 0; r < whole; r++) CHECK_EQUAL(alone[r], (full.stats.*field)[r]);
  }
  CHECK(logitStats({nullptr, DType::Float32, 0, 5, 5, 1}, {nullptr, nullptr, 1.0}, {}, {}, pool, b) == Outcome::Done);
}

TEST_CASE("masked rows are not read, and means run over the others") {
  Numbers numbers(83);
  for (const std::int64_t columns : {50, 20000}) {
    const std::int64_t rows = 9;
    Elements elements(DType::Float32, rows * columns);
    for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, 3 * numbers.bell());
    for (std::int64_t c = 0; c < columns; c++) elements.set(4 * columns + c, kNaN);
    const std::vector<std::int32_t> targets(rows, 7);
    const std::uint8_t mask[] = {1, 0, 1, 1, 0, 1, 1, 1, 0};
    const std::int64_t begins[] = {0, 3, 8, 6}, ends[] = {3, 6, 9, 6};
    for (const std::int64_t stride : {columns, std::int64_t{1}}) {
      Buffers out(rows);
      double meanEntropy[4], meanTarget[4];
      ThreadPool pool(2);
      JobControl control;
      logitStats({elements.data(), DType::Float32, rows, columns, stride, stride == 1 ? rows : 1},
                 {targets.data(), mask, 1.0}, out.stats, {4, begins, ends, meanEntropy, meanTarget}, pool, control);
      CHECK_EQUAL(control.doneUnits.load(), rows * columns);
      for (std::int64_t r = 0; r < rows; r++) {
        if (mask[r] != 0) continue;
        CHECK(std::isnan(out.stats.logsumexp[r]) && std::isnan(out.stats.entropy[r]));
        CHECK(std::isnan(out.stats.targetLogprob[r]));
        CHECK_EQUAL(out.stats.argmax[r], -1);
        CHECK_EQUAL(out.stats.rankAbove[r], -1);
        CHECK_EQUAL(out.stats.rankEqual[r], -1);
      }
      if (stride == 1) continue;  // there the NaN stand in every row
      const LogitStats& s = out.stats;
      CHECK_NEAR(meanEntropy[0], (s.entropy[0] + s.entropy[2]) / 2, 1e-15);
      CHECK_NEAR(meanEntropy[1], (s.entropy[3] + s.entropy[5]) / 2, 1e-15);
      CHECK_NEAR(meanTarget[0], (s.targetLogprob[0] + s.targetLogprob[2]) / 2, 1e-15);
      CHECK(std::isnan(meanEntropy[2]) && std::isnan(meanTarget[2]));
      CHECK(std::isnan(meanEntropy[3]) && std::isnan(meanTarget[3]));
    }
  }
}

TEST_CASE("no columns") {
  Buffers out(2);
  const std::uint8_t mask[] = {1, 0};
  ThreadPool pool(1);
  JobControl control;
  CHECK(logitStats({nullptr, DType::Float32, 2, 0, 0, 1}, {nullptr, mask, 1.0}, out.stats, {}, pool, control) ==
        Outcome::Done);
  CHECK_EQUAL(out.stats.logsumexp[0], -kInfinity);
  CHECK(std::isnan(out.stats.logsumexp[1]) && std::isnan(out.stats.entropy[0]));
  CHECK_EQUAL(out.stats.argmax[0], -1);
}

TEST_CASE("a cancelled job says so") {
  Elements elements(DType::Float32, 4 * 20000);
  for (std::int64_t i = 0; i < 4 * 20000; i++) elements.set(i, 0.0);
  for (const int threads : {1, 2}) {
    Buffers out(4);
    ThreadPool pool(threads);
    JobControl control;
    control.cancelled = true;
    CHECK(logitStats({elements.data(), DType::Float32, 4, 20000, 20000, 1}, {nullptr, nullptr, 1.0}, out.stats, {},
                     pool, control) == Outcome::Cancelled);
  }
}

TEST_CASE("a job that is cancelled within a row ends there, and says so") {
  // One element for all columns. A thread alone walks the row; two share it.
  const double element = 1.0;
  const std::int64_t columns = std::int64_t{1} << 28;
  for (const int threads : {1, 2}) {
    JobControl control;
    std::thread canceller([&] {
      while (control.doneUnits < 1) std::this_thread::yield();
      control.cancelled = true;
    });
    Buffers out(1);
    ThreadPool pool(threads);
    CHECK(logitStats({&element, DType::Float64, 1, columns, 0, 0}, {nullptr, nullptr, 1.0}, out.stats, {}, pool,
                     control) == Outcome::Cancelled);
    canceller.join();
    CHECK(control.doneUnits.load() < columns);
  }
}

TEST_CASE("golden numerics") {
  const std::vector<GoldenCase> golden = goldenNumerics();
  CHECK_EQUAL(golden.size(), std::size_t{129});
  for (const Isa isa : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (!forceIsa(isaName(isa))) continue;
    for (const GoldenCase& one : golden) {
      int type = 0;
      while (one.dtype != kTypeNames[type]) type++;
      const bool wide = type == 0;
      const auto columns = static_cast<std::int64_t>(one.bits.size());
      Elements elements(static_cast<DType>(type), columns);
      for (std::int64_t c = 0; c < columns; c++) elements.setBits(c, one.bits[static_cast<std::size_t>(c)]);
      const std::int32_t target = std::stoi(one.target);
      Buffers out(1);
      ThreadPool pool(1);
      JobControl control;
      logitStats({elements.data(), elements.dtype(), 1, columns, columns, 1}, {&target, nullptr, 1.0}, out.stats, {},
                 pool, control);
      const long double logsumexp = std::stold(one.logSumExp), logprob = std::stold(one.targetLogProb);
      const double entropy = std::stod(one.entropy);
      CHECK_NEAR(*out.stats.logsumexp, static_cast<double>(logsumexp), tolerance(wide, logsumexp), one.name, " ",
                 one.dtype);
      CHECK_NEAR(*out.stats.entropy, entropy, wide ? 4 * ulp(std::max(1.0, entropy)) : 1e-6, one.name, " ", one.dtype);
      CHECK_NEAR(*out.stats.targetLogprob, static_cast<double>(logprob), tolerance(wide, logprob), one.name, " ",
                 one.dtype);
      if (one.argmax < 0) {
        CHECK(std::isnan(elements.get(*out.stats.argmax)));
      } else {
        CHECK_EQUAL(*out.stats.argmax, one.argmax, one.name, " ", one.dtype);
      }
    }
  }
}

int main() {
  const int status = runCases();
  std::cout << "largest errors as shares of the gate, types of 32 bits and less: log-sum-exp " << worstNarrow.logsumexp
            << ", entropy " << worstNarrow.entropy << ", target log-prob " << worstNarrow.targetLogprob << "\n"
            << "float64, in ulp: log-sum-exp " << worstWide.logsumexp << ", entropy " << worstWide.entropy
            << ", target log-prob " << worstWide.targetLogprob << "\n";
  return status;
}
