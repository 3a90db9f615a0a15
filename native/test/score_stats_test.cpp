// scoreStats against long double: random and adversarial rows, every type and layout, and the golden numerics.
#include "engine/score_stats.h"

#include "check.h"
#include "random_numbers.h"
#include "row_stats_buffers.h"
#include "test/references/golden_numerics.h"
#include "test/references/scores.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Matrix {
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns, bool transposed = false)
      : elements(dtype, rows * columns), rows(rows), columns(columns), transposed(transposed) {}
  std::int64_t at(std::int64_t r, std::int64_t c) const { return transposed ? c * rows + r : r * columns + c; }
  ScoreMatrix view() const {
    return {elements.data(), elements.dtype(), rows, columns, transposed ? 1 : columns, transposed ? rows : 1};
  }
  std::vector<double> row(std::int64_t r) const {
    std::vector<double> out;
    for (std::int64_t c = 0; c < columns; c++) out.push_back(elements.get(at(r, c)));
    return out;
  }

  Elements elements;
  std::int64_t rows, columns;
  bool transposed;
};

// The largest errors met, for the summary line.
struct Errors {
  double marginal = 0, loo = 0, token = 0, entropy = 0;
} worstNarrow, worstWide;

void note(double& worst, double actual, long double expected, double unit) {
  if (std::isfinite(actual)) worst = std::max(worst, static_cast<double>(std::abs(actual - expected)) / unit);
}

double ulp(double x) { return std::abs(x) > 1e-290 ? std::nextafter(std::abs(x), kInfinity) - std::abs(x) : 0x1p-1074; }

// The gate: of the log-sum-exp, whose type's ulp counts, whatever is then subtracted.
double tolerance(bool wide, long double logSumExp, long double value) {
  if (!std::isfinite(logSumExp)) return 0;
  const double size = static_cast<double>(std::max(std::abs(logSumExp), std::abs(value)));
  // float64: 4 ulp, and never less than those of 1, where the value itself is a sum that cancels.
  if (wide) return 4 * ulp(std::max(size, 1.0));
  return 3e-7 + size * 0x1p-24;
}

void checkRow(const Matrix& matrix, const ScoreRows& rows, const RowStats& stats, std::int64_t r, const char* what) {
  const bool wide = matrix.elements.dtype() == DType::Float64;
  const std::vector<double> scores = matrix.row(r);
  const ReferenceRow expected = referenceRow(scores, rows.own[r], rows.lengths[r], rows.signature);
  const double own = scores[static_cast<std::size_t>(rows.own[r])];
  const double length = static_cast<double>(std::max<std::int64_t>(rows.lengths[r], 1));
  CHECK_EQUAL(stats.matchedSeq[r], own, what);
  CHECK_EQUAL(stats.matchedToken[r], own / length, what);

  const double logColumns = std::log(static_cast<double>(matrix.columns));
  const double gate = tolerance(wide, expected.marginalSeq, expected.marginalSeq + logColumns);
  const double gateToken = tolerance(wide, expected.marginalToken, expected.marginalToken + logColumns);
  const double gateLoo = tolerance(wide, expected.looMarginalSeq, expected.looMarginalSeq + logColumns);
  const double gateLooToken = tolerance(wide, expected.looMarginalToken, expected.looMarginalToken + logColumns);
  CHECK_NEAR(stats.marginalSeq[r], static_cast<double>(expected.marginalSeq), gate, what, " row ", r);
  CHECK_NEAR(stats.marginalToken[r], static_cast<double>(expected.marginalToken), gateToken, what, " row ", r);
  CHECK_NEAR(stats.looMarginalSeq[r], static_cast<double>(expected.looMarginalSeq), gateLoo, what, " row ", r);
  CHECK_NEAR(stats.looMarginalToken[r], static_cast<double>(expected.looMarginalToken), gateLooToken, what, " row ", r);
  CHECK_NEAR(stats.posteriorEntropy[r], static_cast<double>(expected.posteriorEntropy), wide ? 1e-13 : 1e-6, what,
             " row ", r);
  if (std::isfinite(stats.posteriorEntropy[r])) CHECK(stats.posteriorEntropy[r] >= 0);

  Errors& worst = wide ? worstWide : worstNarrow;
  note(worst.marginal, stats.marginalSeq[r], expected.marginalSeq, wide ? gate / 4 : 1);
  note(worst.loo, stats.looMarginalSeq[r], expected.looMarginalSeq, wide ? gateLoo / 4 : 1);
  note(worst.token, stats.marginalToken[r], expected.marginalToken, wide ? gateToken / 4 : 1);
  note(worst.entropy, stats.posteriorEntropy[r], expected.posteriorEntropy, 1);

  CHECK_EQUAL(stats.argmax[r], expected.argmax, what, " row ", r);
  CHECK_EQUAL(stats.rankAbove[r], expected.rankAbove, what, " row ", r);
  CHECK_EQUAL(stats.rankEqual[r], expected.rankEqual, what, " row ", r);
  CHECK_EQUAL(stats.hitRank[r], expected.hitRank, what, " row ", r);
  for (int k = 0; k < stats.topK; k++) {
    CHECK_EQUAL(stats.topColumns[r * stats.topK + k], expected.byRank[static_cast<std::size_t>(k)], what, " row ", r,
                " place ", k);
  }
}

// Signatures, if `signatures` > 0, drawn at random.
void checkLabelled(const Matrix& matrix, const std::vector<std::int32_t>& own, const std::vector<std::int64_t>& lengths,
                   Numbers& numbers, std::int64_t signatures, const char* what, int topK = kMaxTopK) {
  std::vector<std::int32_t> signature;
  for (std::int64_t c = 0; c < matrix.columns && signatures > 0; c++) {
    signature.push_back(static_cast<std::int32_t>(numbers.below(std::min(signatures, matrix.columns))));
  }
  const int kept = static_cast<int>(std::min<std::int64_t>(topK, matrix.columns));
  const ScoreRows rows{own.data(), lengths.data(), signatures > 0 ? signature.data() : nullptr};
  RowStatsBuffers out(matrix.rows, kept);
  ThreadPool pool(2);
  JobControl control;
  CHECK(scoreStats(matrix.view(), rows, out.stats, pool, control) == Outcome::Done);
  CHECK_EQUAL(control.doneUnits.load(), matrix.rows * matrix.columns);
  for (std::int64_t r = 0; r < matrix.rows; r++) checkRow(matrix, rows, out.stats, r, what);
}

// Own columns and lengths drawn at random, too.
void checkMatrix(const Matrix& matrix, Numbers& numbers, std::int64_t signatures, const char* what,
                 std::int64_t longest = 400, int topK = kMaxTopK) {
  std::vector<std::int32_t> own;
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < matrix.rows; r++) {
    own.push_back(static_cast<std::int32_t>(numbers.below(matrix.columns)));
    lengths.push_back(numbers.below(longest + 1));
  }
  checkLabelled(matrix, own, lengths, numbers, signatures, what, topK);
}

const char* const kTypeNames[] = {"float64", "float32", "float16", "bfloat16"};

}  // namespace

TEST_CASE("random rows of every size, type and layout") {
  Numbers numbers(21);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 2, 3, 7, 8, 15, 16, 17, 31, 100, 2047, 2048, 2049, 5000}) {
      for (const bool transposed : {false, true}) {
        for (const double spread : {0.3, 4.0, 60.0}) {
          if (kSanitized && spread != 4.0) continue;
          const std::int64_t rows = columns > 1000 ? 3 : 21;
          Matrix matrix(dtype, rows, columns, transposed);
          for (std::int64_t i = 0; i < rows * columns; i++) matrix.elements.set(i, -200 + spread * numbers.bell());
          checkMatrix(matrix, numbers, 0, kTypeNames[static_cast<int>(dtype)]);
          checkMatrix(matrix, numbers, columns / 2 + 1, kTypeNames[static_cast<int>(dtype)]);
        }
      }
    }
  }
}

TEST_CASE("offsets and scales far from zero") {
  Numbers numbers(22);
  for (const DType dtype : kAllTypes) {
    for (const double offset : {0.0, 1.0, -1e4, 1e4, -3e-5}) {
      for (const double spread : {1e-4, 1.0, 30.0, 1000.0}) {
        Matrix matrix(dtype, 8, 300);
        for (std::int64_t i = 0; i < 8 * 300; i++) matrix.elements.set(i, offset + spread * numbers.bell());
        checkMatrix(matrix, numbers, 0, kTypeNames[static_cast<int>(dtype)]);
      }
    }
  }
}

TEST_CASE("very large and very small numbers") {
  Numbers numbers(23);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const double largest = dtype == DType::Float64 ? 1e308 : 1e38;
    Matrix matrix(dtype, 6, 40);
    for (std::int64_t c = 0; c < 40; c++) {
      matrix.elements.set(matrix.at(0, c), c % 2 == 0 ? largest : -largest);
      matrix.elements.set(matrix.at(1, c), -largest);
      matrix.elements.set(matrix.at(2, c), c == 9 ? 0.0 : -largest);
      matrix.elements.set(matrix.at(3, c), c == 9 ? -largest : -1e-30 * static_cast<double>(c));
      matrix.elements.set(matrix.at(4, c), -1e6 + numbers.bell());
      matrix.elements.set(matrix.at(5, c), c % 2 == 0 ? 0.0 : -0.0);
    }
    checkMatrix(matrix, numbers, 0, "extreme", 3);
  }
}

TEST_CASE("special values stand anywhere") {
  Numbers numbers(24);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 2, 5, 16, 33, 2100}) {
      const std::int64_t rows = 40;
      Matrix matrix(dtype, rows, columns);
      for (std::int64_t r = 0; r < rows; r++) {
        const double rarity = numbers.uniform();
        for (std::int64_t c = 0; c < columns; c++) {
          double x = -50 + 5 * numbers.bell();
          if (numbers.uniform() < rarity * 0.7) x = -kInfinity;
          if (r % 4 == 1 && numbers.uniform() < 2.0 / static_cast<double>(columns)) x = kInfinity;
          if (r % 4 >= 2 && numbers.uniform() < 2.0 / static_cast<double>(columns)) x = kNaN;
          if (r % 4 == 3 && numbers.uniform() < 0.2) x = kInfinity;
          if (r == 4) x = -kInfinity;
          if (r == 8) x = c % 3 == 0 ? kNaN : -kInfinity;
          if (r == 12) x = kNaN;
          if (r == 16) x = kInfinity;
          if (r == 20) x = c == columns / 2 ? -3.5 : -kInfinity;
          matrix.elements.set(matrix.at(r, c), x);
        }
      }
      checkMatrix(matrix, numbers, 0, kTypeNames[static_cast<int>(dtype)]);
      checkMatrix(matrix, numbers, 3, kTypeNames[static_cast<int>(dtype)]);
      checkMatrix(matrix, numbers, 1, kTypeNames[static_cast<int>(dtype)]);
    }
  }
}

TEST_CASE("very large numbers that rise or fall from block to block") {
  Numbers numbers(31);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const double largest = dtype == DType::Float64 ? 1e308 : 1e38;
    Matrix matrix(dtype, 4, 3000);
    for (std::int64_t c = 0; c < 3000; c++) {
      matrix.elements.set(matrix.at(0, c), c < 1500 ? -largest : largest);
      matrix.elements.set(matrix.at(1, c), c < 1500 ? largest : -largest);
      matrix.elements.set(matrix.at(2, c), c < 2900 ? -largest : -5.0);
      matrix.elements.set(matrix.at(3, c), c < 1100 ? -kInfinity : c < 2200 ? -largest : -0.5 * largest);
    }
    checkMatrix(matrix, numbers, 0, "far from block to block", 1);
    checkMatrix(matrix, numbers, 2, "far from block to block", 1);
  }
}

TEST_CASE("the own score is NaN or infinite, in whatever block it stands") {
  Numbers numbers(32);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {9, 300, 2100, 5000}) {
      const std::vector<std::int32_t> own = {0, static_cast<std::int32_t>(columns / 2),
                                             static_cast<std::int32_t>(columns - 1)};
      for (const double special : {kNaN, kInfinity, -kInfinity}) {
        for (const bool alone : {true, false}) {
          Matrix matrix(dtype, 3, columns);
          for (std::int64_t r = 0; r < 3; r++) {
            for (std::int64_t c = 0; c < columns; c++) matrix.elements.set(matrix.at(r, c), -50 + 5 * numbers.bell());
            matrix.elements.set(matrix.at(r, own[static_cast<std::size_t>(r)]), special);
            if (!alone) matrix.elements.set(matrix.at(r, numbers.below(columns)), kInfinity);
          }
          checkLabelled(matrix, own, {0, 1, 50}, numbers, 0, kTypeNames[static_cast<int>(dtype)]);
          checkLabelled(matrix, own, {0, 1, 50}, numbers, 3, kTypeNames[static_cast<int>(dtype)]);
        }
      }
    }
  }
}

TEST_CASE("rows of up to a hundred million tokens, whose scores lie as far apart") {
  Numbers numbers(33);
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    for (const std::int64_t longest : {100000, 3000000, 100000000}) {
      for (const std::int64_t columns : {40, 1500}) {
        Matrix matrix(dtype, 20, columns);
        for (std::int64_t i = 0; i < 20 * columns; i++) {
          matrix.elements.set(i, -static_cast<double>(longest) * numbers.uniform());
        }
        checkMatrix(matrix, numbers, 0, "long", longest);
      }
    }
  }
}

TEST_CASE("a NaN is found whatever its bits") {
  for (const std::uint64_t bits : {0x7fc00001u, 0x7f800001u, 0xffffffffu, 0x7f80007fu}) {
    Matrix matrix(DType::Float32, 1, 20);
    for (std::int64_t c = 0; c < 20; c++) matrix.elements.set(c, -static_cast<double>(c));
    matrix.elements.setBits(7, bits);
    Numbers numbers(bits);
    checkMatrix(matrix, numbers, 0, "NaN bits");
  }
  for (const std::uint64_t bits :
       {0x7ff8000000000001u, 0x7ff0000000000001u, 0xffffffffffffffffu, 0x7ff0000000000fffu}) {
    Matrix matrix(DType::Float64, 1, 20);
    for (std::int64_t c = 0; c < 20; c++) matrix.elements.set(c, -static_cast<double>(c));
    matrix.elements.setBits(7, bits);
    Numbers numbers(bits);
    checkMatrix(matrix, numbers, 0, "NaN bits");
  }
}

TEST_CASE("ties and duplicates go to the lowest column") {
  Numbers numbers(25);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {4, 40, 3000}) {
      for (const double gap : {1.0, 0x1p-18}) {  // small: float32 tells the scores apart, but by their last bits
        Matrix matrix(dtype, 36, columns);
        for (std::int64_t i = 0; i < 36 * columns; i++) {
          matrix.elements.set(i, -3 - gap * static_cast<double>(numbers.below(4)));
        }
        for (int topK : {0, 1, 2, 4, 8}) checkMatrix(matrix, numbers, 0, "ties", 10, topK);
      }
    }
  }
}

TEST_CASE("below the best, scores that differ by the last bits of their distance from it alone are put in order") {
  Numbers numbers(34);
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    const double step = dtype == DType::Float64 ? 0x1p-52 : 0x1p-23;
    for (const std::int64_t columns : {7, 9, 40, 256, 3000}) {
      for (const int apart : {1, 7}) {  // so many are far apart, in all rows that are looked at together
        Matrix matrix(dtype, 36, columns);
        for (std::int64_t r = 0; r < 36; r++) {
          for (std::int64_t c = 0; c < columns; c++) {
            const bool last =
                columns > 16 && c >= columns - 8;  // of the columns, which come by eights: none is among the best
            matrix.elements.set(matrix.at(r, c), last ? -2 : -1 - step * static_cast<double>(numbers.below(200)));
          }
          for (int place = 0; place < apart; place++) {
            matrix.elements.set(matrix.at(r, (r + 5 * place) % (columns > 16 ? columns - 8 : columns)), -0.125 * place);
          }
        }
        for (int topK : {1, 2, 8}) checkMatrix(matrix, numbers, 0, "last bits", 10, topK);
      }
    }
  }
}

TEST_CASE("many like terms beside a far maximum: their rounding errors must not add up") {
  Numbers numbers(26);
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    for (const double below : {1.0, 7.7, 8.4, 10.0}) {
      for (const double offset : {0.0, -0.123456, -77.7}) {
        Matrix matrix(dtype, 2, 20000);
        for (std::int64_t r = 0; r < 2; r++) {
          for (std::int64_t c = 0; c < 20000; c++) {
            const double difference = below + (r == 1 ? 0.01 * numbers.uniform() : 0.0);
            matrix.elements.set(matrix.at(r, c), offset - (c == 11000 ? 0.0 : difference));
          }
        }
        checkMatrix(matrix, numbers, 0, "one far above", 3);
      }
    }
  }
}

TEST_CASE("a million like terms: the sums of blocks are added exactly") {
  Numbers numbers(30);
  if (kSanitized) return;
  for (const DType dtype : {DType::Float64, DType::Float32}) {
    Matrix matrix(dtype, 1, 1000000);
    for (std::int64_t c = 0; c < 1000000; c++) matrix.elements.set(c, c == 777777 ? 14.0 : 0.3);
    checkMatrix(matrix, numbers, 0, "a million alike", 1);
  }
}

TEST_CASE("a million columns") {
  Numbers numbers(27);
  for (const DType dtype : {DType::Float64, DType::Float32, DType::BFloat16}) {
    if (kSanitized && dtype != DType::Float32) continue;
    Matrix matrix(dtype, 1, 1000000);
    for (std::int64_t c = 0; c < 1000000; c++) matrix.elements.set(c, -300 + 3 * numbers.bell());
    checkMatrix(matrix, numbers, 0, "a million");
  }
}

TEST_CASE("equal scores and single columns come out exactly") {
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {1, 2, 3, 100, 5000}) {
      Matrix matrix(dtype, 1, columns);
      for (std::int64_t c = 0; c < columns; c++) matrix.elements.set(c, -142.0);
      const std::int32_t own = static_cast<std::int32_t>(columns - 1);
      const std::int64_t length = 4;
      RowStatsBuffers out(1, 1);
      ThreadPool pool(1);
      JobControl control;
      scoreStats(matrix.view(), {&own, &length, nullptr}, out.stats, pool, control);
      CHECK_EQUAL(*out.stats.marginalSeq, -142.0);
      CHECK_EQUAL(*out.stats.marginalToken, -35.5);
      CHECK_EQUAL(*out.stats.looMarginalSeq, columns > 1 ? -142.0 : kNaN);
      CHECK_EQUAL(*out.stats.looMarginalToken, columns > 1 ? -35.5 : kNaN);
      CHECK_NEAR(*out.stats.posteriorEntropy, std::log(static_cast<double>(columns)), 1e-15);
    }
  }
}

TEST_CASE("the leave-one-out marginal does not cancel where own holds all the mass") {
  Matrix matrix(DType::Float64, 1, 3);
  matrix.elements.set(0, -1000.0);
  matrix.elements.set(1, -10.0);
  matrix.elements.set(2, -1001.0);
  const std::int32_t own = 1;
  const std::int64_t length = 1;
  RowStatsBuffers out(1, 1);
  ThreadPool pool(1);
  JobControl control;
  scoreStats(matrix.view(), {&own, &length, nullptr}, out.stats, pool, control);
  CHECK_NEAR(*out.stats.looMarginalSeq, -1000.0 + std::log((1 + std::exp(-1.0)) / 2), 1e-12);
  CHECK_EQUAL(*out.stats.posteriorEntropy, 0.0);
}

TEST_CASE("strides may be negative, zero, or leave gaps") {
  Numbers numbers(28);
  const std::int64_t rows = 37, columns = 53, size = 40000;
  for (const DType dtype : kAllTypes) {
    Elements elements(dtype, size);
    for (std::int64_t i = 0; i < size; i++) elements.set(i, -30 + 3 * numbers.bell());
    struct Layout {
      std::int64_t base, rowStride, columnStride;
    };
    for (const Layout layout : {Layout{rows * columns - 1, -columns, -1},
                                {0, 3, 2 * 3 * rows},
                                {5, 2 * columns * 3, 3},
                                {9, 0, 1},
                                {9, 1, 0},
                                {9, 0, 0},
                                {20000, -1, 60},
                                {20000, 70, -2}}) {
      std::vector<std::int32_t> own;
      std::vector<std::int64_t> lengths;
      Matrix dense(dtype, rows, columns);
      for (std::int64_t r = 0; r < rows; r++) {
        own.push_back(static_cast<std::int32_t>(numbers.below(columns)));
        lengths.push_back(1 + numbers.below(9));
        for (std::int64_t c = 0; c < columns; c++) {
          const std::int64_t from = layout.base + r * layout.rowStride + c * layout.columnStride;
          dense.elements.set(dense.at(r, c), elements.get(from));
        }
      }
      const ScoreRows labels{own.data(), lengths.data(), nullptr};
      const ScoreMatrix view{
          static_cast<const unsigned char*>(elements.data()) + layout.base * static_cast<std::int64_t>(sizeOf(dtype)),
          dtype,
          rows,
          columns,
          layout.rowStride,
          layout.columnStride};
      RowStatsBuffers strided(rows, 8), plain(rows, 8);
      ThreadPool pool(3);
      JobControl a, b;
      scoreStats(view, labels, strided.stats, pool, a);
      scoreStats(dense.view(), labels, plain.stats, pool, b);
      CHECK(strided.doubles == plain.doubles);
      CHECK(strided.indices == plain.indices);
    }
  }
}

TEST_CASE("fields that are not wanted are not needed, nor are rows") {
  Numbers numbers(29);
  Matrix matrix(DType::Float32, 5, 30);
  for (std::int64_t i = 0; i < 150; i++) matrix.elements.set(i, numbers.bell());
  const std::int32_t own[] = {0, 1, 2, 3, 4};
  const std::int64_t lengths[] = {1, 2, 3, 4, 5};
  RowStatsBuffers full(5, 4);
  ThreadPool pool(2);
  JobControl a, b, c;
  scoreStats(matrix.view(), {own, lengths, nullptr}, full.stats, pool, a);
  RowStats only{};
  double entropy[5];
  only.posteriorEntropy = entropy;
  CHECK(scoreStats(matrix.view(), {own, lengths, nullptr}, only, pool, b) == Outcome::Done);
  for (int r = 0; r < 5; r++) CHECK_EQUAL(entropy[r], full.stats.posteriorEntropy[r]);
  const ScoreMatrix none{matrix.elements.data(), DType::Float32, 0, 30, 30, 1};
  CHECK(scoreStats(none, {own, lengths, nullptr}, only, pool, c) == Outcome::Done);
}

TEST_CASE("a cancelled job says so") {
  Matrix matrix(DType::Float32, 2000, 300);
  std::vector<std::int32_t> own(2000, 0);
  std::vector<std::int64_t> lengths(2000, 1);
  RowStatsBuffers out(2000, 1);
  ThreadPool pool(2);
  JobControl control;
  control.cancelled = true;
  const ScoreRows labels{own.data(), lengths.data(), nullptr};
  CHECK(scoreStats(matrix.view(), labels, out.stats, pool, control) == Outcome::Cancelled);
  CHECK_EQUAL(control.doneUnits.load(), 0);
}

// --- golden numerics ---------------------------------------------------------------------------------------------

TEST_CASE("golden numerics") {
  const std::vector<GoldenCase> golden = goldenNumerics();
  CHECK_EQUAL(golden.size(), std::size_t{129});
  for (const GoldenCase& one : golden) {
    int type = 0;
    while (one.dtype != kTypeNames[type]) type++;
    const bool wide = type == 0;
    const auto columns = static_cast<std::int64_t>(one.bits.size());
    Matrix matrix(static_cast<DType>(type), 1, columns);
    for (std::int64_t c = 0; c < columns; c++) matrix.elements.setBits(c, one.bits[static_cast<std::size_t>(c)]);
    const std::int32_t own = std::stoi(one.target);
    const std::int64_t length = 1;
    RowStatsBuffers out(1, 1);
    ThreadPool pool(1);
    JobControl control;
    scoreStats(matrix.view(), {&own, &length, nullptr}, out.stats, pool, control);
    const long double logSumExp = std::stold(one.logSumExp);
    const long double marginal = logSumExp - std::log(static_cast<long double>(columns));
    const double gate = tolerance(wide, logSumExp, marginal);
    CHECK_NEAR(*out.stats.marginalSeq, static_cast<double>(marginal), gate, one.name, " ", one.dtype);
    CHECK_NEAR(*out.stats.marginalToken, static_cast<double>(marginal), gate, one.name, " ", one.dtype);
    CHECK_NEAR(*out.stats.posteriorEntropy, std::stod(one.entropy), wide ? 1e-13 : 1e-6, one.name, " ", one.dtype);
    if (std::isfinite(logSumExp)) {
      CHECK_NEAR(*out.stats.matchedSeq - static_cast<double>(logSumExp), std::stod(one.targetLogProb),
                 gate + 4 * ulp(static_cast<double>(logSumExp)), one.name, " ", one.dtype);
    }
    if (one.argmax < 0) {
      CHECK(std::isnan(matrix.elements.get(*out.stats.argmax)));
    } else {
      CHECK_EQUAL(*out.stats.argmax, one.argmax, one.name, " ", one.dtype);
    }
    CHECK_EQUAL(*out.stats.topColumns, *out.stats.argmax, one.name, " ", one.dtype);
  }
}

int main() {
  const int status = runCases();
  std::cout << "largest errors, types of 32 bits and less: marginal " << worstNarrow.marginal << ", leave-one-out "
            << worstNarrow.loo << ", per token " << worstNarrow.token << ", entropy " << worstNarrow.entropy << "\n"
            << "float64, in ulp: marginal " << worstWide.marginal << ", leave-one-out " << worstWide.loo
            << ", per token " << worstWide.token << "; entropy " << worstWide.entropy << "\n";
  return status;
}
