// A matrix in memory of the host or the device, in any layout, and what it is filled with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_check.h"
#include "test/random_numbers.h"

namespace collapsar::test {

enum Layout { kDense, kOdd, kTransposed, kReversedRows, kReversedColumns, kRepeated, kHost, kHostTransposed, kLayouts };
inline const char* const kLayoutNames[] = {"dense",    "odd",  "transposed",      "reversed rows", "reversed columns",
                                           "repeated", "host", "host, transposed"};

// A matrix of one type and layout, filled on the host, and where the backend finds it.
class PlacedMatrix {
 public:
  PlacedMatrix(DType dtype, std::int64_t rows, std::int64_t columns, Layout layout)
      : dtype_(dtype), rows_(rows), columns_(columns), layout_(layout) {
    rowStride = columns;
    columnStride = 1;
    std::int64_t count = rows * columns;
    if (layout == kOdd) {
      rowStride = columns + 3;
      first_ = 1;
      count = rows * rowStride + 1;
    } else if (layout == kTransposed || layout == kHostTransposed) {
      rowStride = 1;
      columnStride = rows;
    } else if (layout == kReversedRows) {
      rowStride = -columns;
      first_ = (rows - 1) * columns;
    } else if (layout == kReversedColumns) {
      columnStride = -1;
      first_ = columns - 1;
    } else if (layout == kRepeated) {
      rowStride = 0;
      count = columns;
    }
    elements_ = std::make_unique<Elements>(dtype, std::max<std::int64_t>(count, 1));
    count_ = count;
  }

  void set(std::int64_t row, std::int64_t column, double x) { elements_->set(at(row, column), x); }
  void setBits(std::int64_t row, std::int64_t column, std::uint64_t bits) { elements_->setBits(at(row, column), bits); }
  double get(std::int64_t row, std::int64_t column) const { return elements_->get(at(row, column)); }
  std::vector<double> row(std::int64_t r) const {
    std::vector<double> values;
    for (std::int64_t c = 0; c < columns_; c++) values.push_back(get(r, c));
    return values;
  }

  // Element (0, 0), where the backend reads it.
  const void* data() {
    const std::int64_t size = static_cast<std::int64_t>(sizeOf(dtype_));
    if (!onDevice()) return static_cast<const char*>(std::as_const(*elements_).data()) + first_ * size;
    memory_ = std::make_unique<DeviceMemory>(*device, std::as_const(*elements_).data(), count_ * size);
    return memory_->as<char>() + first_ * size;
  }
  // As the backend is given a matrix: CollapsarCudaLogits or CollapsarCudaScores, without what belongs to one of them.
  template <class Given>
  Given given() {
    Given out{};
    out.size = sizeof out;
    out.dtype = static_cast<std::int32_t>(dtype_);
    out.data = data();
    out.data_on_device = onDevice();
    out.rows = rows_;
    out.columns = columns_;
    out.row_stride = rowStride;
    out.column_stride = columnStride;
    return out;
  }
  bool onDevice() const { return layout_ != kHost && layout_ != kHostTransposed; }
  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  Layout layout() const { return layout_; }
  std::int64_t rowStride, columnStride;

 private:
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    return first_ + row * rowStride + column * columnStride;
  }
  DType dtype_;
  std::int64_t rows_, columns_, first_ = 0, count_ = 0;
  Layout layout_;
  std::unique_ptr<Elements> elements_;
  std::unique_ptr<DeviceMemory> memory_;
};

using Fill = std::function<double(std::int64_t row, std::int64_t column)>;

inline void fill(PlacedMatrix& matrix, const Fill& value) {
  for (std::int64_t r = 0; r < matrix.rows(); r++) {
    if (r > 0 && matrix.layout() == kRepeated) break;
    for (std::int64_t c = 0; c < matrix.columns(); c++) matrix.set(r, c, value(r, c));
  }
}

// Rows with special values anywhere, rarely and often.
inline Fill specials(Numbers& numbers, std::int64_t columns) {
  return [&numbers, columns](std::int64_t row, std::int64_t column) -> double {
    const std::int64_t kind = row % 12;
    if (kind == 0) return -kInfinity;
    if (kind == 1) return 2.5;  // ties everywhere
    if (kind == 2) return column % 3 == 0 ? -0.0 : 0.0;
    if (kind == 3) return column == columns / 2 ? 1.0 : -kInfinity;
    if (kind == 4) return column == (columns * 7) / 9 ? kInfinity : numbers.bell();
    if (kind == 5) return column == columns / 3 || column == columns - 1 ? kNaN : numbers.bell();
    if (kind == 6) return numbers.below(20) == 0 ? kNaN : numbers.below(9) == 0 ? kInfinity : -kInfinity;
    if (kind == 7) return numbers.below(2) == 0 ? -kInfinity : -3.0 + numbers.bell();
    if (kind == 8) return static_cast<double>(column) * 0.25;      // rising: the reference is raised again and again
    if (kind == 9) return static_cast<double>(column) * -0.25;     // falling
    if (kind == 10) return std::floor(3 * numbers.uniform());      // many ties at the top
    return column == columns - 1 ? 40.0 : -40.0 + numbers.bell();  // a confident row
  };
}

}  // namespace collapsar::test
