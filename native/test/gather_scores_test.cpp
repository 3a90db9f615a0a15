// gatherScores: picks, repeats and widens elements of every type and layout.
#include "engine/gather_scores.h"

#include "check.h"
#include "random_numbers.h"

using namespace collapsar;
using namespace collapsar::test;

TEST_CASE("rows and columns are picked and widened") {
  Numbers numbers(51);
  const std::int64_t rows = 23, columns = 41;
  for (const DType dtype : kAllTypes) {
    Elements elements(dtype, rows * columns);
    for (std::int64_t i = 0; i < rows * columns; i++) elements.set(i, 100 * numbers.bell());
    elements.set(7, -std::numeric_limits<double>::infinity());
    elements.set(9, std::nan(""));
    elements.set(11, 3e-7);  // subnormal as a float16
    for (const bool transposed : {false, true}) {
      const ScoreMatrix view{elements.data(), dtype, rows, columns, transposed ? 1 : columns, transposed ? rows : 1};
      std::vector<std::int32_t> rowIndex, columnIndex;
      for (int i = 0; i < 60; i++) rowIndex.push_back(static_cast<std::int32_t>(numbers.below(rows)));
      for (int j = 0; j < 30; j++) columnIndex.push_back(static_cast<std::int32_t>(numbers.below(columns)));
      for (int which = 0; which < 4; which++) {
        const std::int32_t* byRow = (which & 1) != 0 ? rowIndex.data() : nullptr;
        const std::int32_t* byColumn = (which & 2) != 0 ? columnIndex.data() : nullptr;
        const std::int64_t outRows = byRow != nullptr ? 60 : rows, outColumns = byColumn != nullptr ? 30 : columns;
        std::vector<double> out(static_cast<std::size_t>(outRows * outColumns), -1.0);
        ThreadPool pool(3);
        JobControl control;
        CHECK(gatherScores(view, byRow, outRows, byColumn, outColumns, out.data(), pool, control) == Outcome::Done);
        CHECK_EQUAL(control.doneUnits.load(), outRows * outColumns);
        CHECK_EQUAL(control.totalUnits.load(), outRows * outColumns);
        for (std::int64_t i = 0; i < outRows; i++) {
          for (std::int64_t j = 0; j < outColumns; j++) {
            const std::int64_t r = byRow != nullptr ? byRow[i] : i, c = byColumn != nullptr ? byColumn[j] : j;
            CHECK_EQUAL(out[static_cast<std::size_t>(i * outColumns + j)],
                        elements.get(transposed ? c * rows + r : r * columns + c));
          }
        }
      }
    }
  }
}

TEST_CASE("rows of more columns than a tile has elements") {
  const std::int64_t columns = 70000;
  Elements elements(DType::Float32, 3 * columns);
  for (std::int64_t i = 0; i < 3 * columns; i++) elements.set(i, static_cast<double>(i));
  const ScoreMatrix view{elements.data(), DType::Float32, 3, columns, columns, 1};
  std::vector<double> out(static_cast<std::size_t>(3 * columns));
  ThreadPool pool(2);
  JobControl control;
  CHECK(gatherScores(view, nullptr, 3, nullptr, columns, out.data(), pool, control) == Outcome::Done);
  bool same = true;
  for (std::size_t i = 0; i < out.size(); i++) same &= out[i] == static_cast<double>(i);
  CHECK(same);
}

TEST_CASE("many tiles, none, and a cancelled job") {
  Elements one(DType::Float32, 1);
  one.set(0, 2.5);
  const ScoreMatrix view{one.data(), DType::Float32, 700, 500, 0, 0};
  std::vector<double> out(700 * 500, 0.0);
  ThreadPool pool(4);
  JobControl control, none, cancelled;
  gatherScores(view, nullptr, 700, nullptr, 500, out.data(), pool, control);
  CHECK(out == std::vector<double>(700 * 500, 2.5));
  CHECK(gatherScores(view, nullptr, 0, nullptr, 500, out.data(), pool, none) == Outcome::Done);
  CHECK(gatherScores(view, nullptr, 700, nullptr, 0, out.data(), pool, none) == Outcome::Done);
  cancelled.cancelled = true;
  CHECK(gatherScores(view, nullptr, 700, nullptr, 500, out.data(), pool, cancelled) == Outcome::Cancelled);
}

int main() { return collapsar::test::runCases(); }
