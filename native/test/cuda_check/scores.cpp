// The section "scores": scoreStats.
#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>
#include <vector>

#include "cuda_check.h"
#include "placed_matrix.h"
#include "row_stats_fields.h"
#include "test/check.h"
#include "test/random_numbers.h"

namespace collapsar::test {
namespace {

void checkScores(PlacedMatrix& scores, Numbers& numbers, bool signatures, int topK, bool resultsOnDevice,
                 std::int64_t checkedRows, const char* what) {
  const std::int64_t rows = scores.rows(), columns = scores.columns();
  const RowLabels labels = labelsFor(rows, columns, signatures, numbers);
  RowStatsFields fields(rows, topK, resultsOnDevice);
  const auto given = scores.given<CollapsarCudaScores>();
  CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(), labels.lengths.data(),
                                   signatures ? labels.signature.data() : nullptr};
  const CollapsarCudaStatus status =
      (*device)->score_stats(device->get(), &given, &rowLabels, &fields.stats, nullptr, &device->error);
  CHECK_EQUAL(static_cast<int>(status), 0, device->error.message);
  if (status != COLLAPSAR_CUDA_OK) return;
  settle(fields);
  std::ostringstream label;
  label << what << ", " << kTypeNames[static_cast<int>(scores.dtype())] << " " << rows << " x " << columns << ", "
        << kLayoutNames[scores.layout()] << (signatures ? ", signatures" : "") << ", top " << topK << ", row ";
  const std::int64_t step = checkedRows < 0 ? 1 : std::max<std::int64_t>(1, rows / checkedRows);
  for (std::int64_t r = 0; r < rows; r += step) {
    compareRow(scores.row(r), r, labels, fields, scores.dtype() == DType::Float64, label.str());
  }
}

// The best columns in one thread's vectors of rows that start at one, of which `vectors` follow each other before it
// has the next: as ties, by rising score, at random, and with NaN.
Fill bestInOneThread(Numbers& numbers, DType dtype, std::int64_t vectors) {
  const std::int64_t perVector = 16 / static_cast<std::int64_t>(sizeOf(dtype));
  return [=, &numbers](std::int64_t row, std::int64_t column) -> double {
    const double noise = -120 + 2 * numbers.bell();
    if (column / perVector % vectors != row * 7 % vectors) return noise;
    if (row % 4 == 3 && numbers.below(10) == 0) return kNaN;
    return row % 4 == 0 ? -100 : row % 4 == 1 ? -100 + static_cast<double>(column) * 0.0625 : noise + 20;
  };
}

}  // namespace

void scoreChecks() {
  Numbers numbers(options.seed * 1000 + 2);
  const std::vector<std::int64_t> sizes =
      options.tiny ? std::vector<std::int64_t>{3, 33, 100, 255, 511, 1024, 20001}
      : options.quick
          ? std::vector<std::int64_t>{1, 2, 3, 8, 31, 33, 64, 100, 256, 512, 515, 777, 1024, 3000, 9000, 20000}
          : std::vector<std::int64_t>{1,    2,    3,    4,    5,    7,    8,     16,    31,   32,  33,
                                      40,   64,   100,  127,  255,  256,  511,   512,   513,  777, 1024,
                                      2047, 2048, 2049, 4096, 5000, 8192, 16384, 30001, 65536};
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : sizes) {
      for (int layout = 0; layout < kLayouts; layout++) {
        if (options.quick && (layout + columns) % 4 != 0 && layout != kOdd) continue;
        const std::int64_t rows = columns > 2000 ? 3 : columns > 100 ? 20 : 70;
        PlacedMatrix scores(dtype, rows, columns, static_cast<Layout>(layout));
        const double spread = layout % 2 == 0 ? 2.0 : 40.0;
        fill(scores, [&](std::int64_t, std::int64_t) { return -120 + spread * numbers.bell(); });
        const int topK = static_cast<int>(std::min<std::int64_t>(columns, (layout + columns) % 9));
        checkScores(scores, numbers, layout % 3 == 1, topK, columns % 3 == 0, -1, "random");
      }
      PlacedMatrix special(dtype, columns > 2000 && options.quick ? 12 : 24, columns, columns % 2 == 0 ? kDense : kOdd);
      fill(special, specials(numbers, columns));
      const int topK = static_cast<int>(std::min<std::int64_t>(columns, 8));
      checkScores(special, numbers, false, topK, false, -1, "special");
      checkScores(special, numbers, true, topK, false, -1, "special");
      checkScores(special, numbers, true, std::min(topK, 1), false, -1, "special");
    }
    // So many that a warp takes short ones turn after turn, and more than 32 of them.
    for (const std::int64_t columns : {40, 100, 300}) {
      if (options.tiny && dtype != DType::Float32 && columns != 100) continue;
      PlacedMatrix scores(dtype, device->info().multiprocessors * 801, columns, columns == 100 ? kOdd : kDense);
      fill(scores, [&](std::int64_t, std::int64_t) { return -120 + 20 * numbers.bell(); });
      checkScores(scores, numbers, columns == 300, static_cast<int>(columns % 9), true, 500, "turn after turn");
    }
    // Longer ones, of which a warp takes one after the other: more than the 8 that end side by side.
    if (!options.tiny || dtype == DType::Float32) {
      PlacedMatrix scores(dtype, device->info().multiprocessors * 130 + 3, 1030, kOdd);
      fill(scores, [&](std::int64_t, std::int64_t) { return -120 + 20 * (numbers.uniform() - numbers.uniform()); });
      checkScores(scores, numbers, dtype == DType::Float16, 5, true, 500, "row after row");
    }
    for (const double offset : {-1000.0, 1000.0, -50000.0, -3e6}) {
      if (dtype == DType::Float16 && offset < -60000) continue;
      PlacedMatrix scores(dtype, 5, 600, kOdd);
      fill(scores, [&](std::int64_t, std::int64_t) { return offset + 8 * numbers.bell(); });
      checkScores(scores, numbers, true, 8, false, -1, "offset");
    }
    // Rows of one warp that need a base (see raiseFar) beside such as need none.
    for (const std::int64_t columns : {33, 100, 512, 600}) {
      const double far = dtype == DType::Float16 ? -6e4 : dtype == DType::BFloat16 ? -3e38 : -3.4e38;
      const double offsets[] = {-120, -3e6 > far ? -3e6 : far, -1e9 > far ? -1e9 : far, far};
      PlacedMatrix scores(dtype, 37, columns, kOdd);
      fill(scores, [&](std::int64_t r, std::int64_t) { return offsets[r % 4] * (1 - 1e-2 * numbers.uniform()); });
      checkScores(scores, numbers, columns == 100, 8, false, -1, "near and far rows");
    }
  }
  for (const DType dtype : kAllTypes) {
    // Warps, blocks, and blocks that have a piece each.
    for (const auto& [rows, columns] : {std::pair{66, 1100}, {3, 20000}, {2, 40000}}) {
      PlacedMatrix scores(dtype, rows, columns, kDense);
      fill(scores, bestInOneThread(numbers, dtype, rows > 3 ? 32 : 256));
      for (const int topK : {8, 1}) checkScores(scores, numbers, false, topK, false, -1, "best in one thread");
    }
  }
  if (!options.large) return;
  const auto large = [&](DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t checked, const char* what) {
    PlacedMatrix scores(dtype, rows, columns, kDense);
    fill(scores, [&](std::int64_t, std::int64_t) { return -200 + 30 * (numbers.uniform() + numbers.uniform()); });
    const int topK = static_cast<int>(std::min<std::int64_t>(columns, 8));
    checkScores(scores, numbers, rows % 2 == 1, topK, false, checked, what);
  };
  large(DType::Float32, 3000000, 2, 3000, "millions of short rows");
  large(DType::Float64, 1500001, 8, 3000, "millions of short rows");
  large(DType::Float32, 5000, 4096, 60, "warp rows");
  large(DType::Float64, 1, 1 << 20, 1, "one row");
  large(DType::BFloat16, 7, 65536, 7, "few long rows");
}

}  // namespace collapsar::test
