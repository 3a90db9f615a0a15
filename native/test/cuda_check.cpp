// A CUDA backend against float64 and long double on the CPU: every operation, type, layout and size class, on random,
// adversarial and golden rows, into poisoned results.
//
//   cuda_check BACKEND.so [--device N] [--tiny | --quick | --large] [--seed N]
//              [--only logits|scores|tokens|fused|memory|errors]
//
// --tiny: one shape of each kernel, for compute-sanitizer. --quick: small shapes, for an emulated device. --large: also
// full vocabularies, V = 2^20, millions of short rows. Exit status 1 if a check fails.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>

#include "check.h"
#include "cuda_device.h"
#include "golden_numerics.h"
#include "logit_reference.h"
#include "random_numbers.h"
#include "score_reference.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const char* const kTypeNames[] = {"float64", "float32", "float16", "bfloat16"};

struct Options {
  const char* backend = nullptr;
  int device = 0;
  bool tiny = false, quick = false, large = false;  // tiny is quick, too
  std::uint64_t seed = 1;
  std::string only;
} options;

CudaDevice* device = nullptr;
long rowsChecked = 0;

double ulp(double x) { return std::abs(x) > 1e-290 ? std::nextafter(std::abs(x), kInfinity) - std::abs(x) : 0x1p-1074; }

// design.md rule 3. float64: 4 ulp, and never less than those of 1, where the value is a sum that cancels.
double gate(bool wide, long double value) {
  if (!std::isfinite(value)) return 0;
  const double size = static_cast<double>(std::abs(value));
  return wide ? 4 * ulp(std::max(size, 1.0)) : 3e-7 + size * 0x1p-24;
}
// Of a log-sum-exp from which ln(columns) was subtracted: its own size counts.
double marginalGate(bool wide, long double value, long double logColumns) {
  if (!std::isfinite(value)) return 0;
  return std::max(gate(wide, value), gate(wide, value + logColumns));
}
double entropyGate(bool wide, long double value) {
  return wide ? 4 * ulp(std::max(1.0, std::isfinite(value) ? static_cast<double>(value) : 1.0)) : 1e-6;
}

// Where in the gates results come to lie, for the summary.
struct Worst {
  double logsumexp = 0, entropy = 0, targetLogprob = 0, marginal = 0, sums = 0;
} worstNarrow, worstWide;
void note(double& worst, double actual, long double expected, double allowed) {
  if (std::isfinite(actual) && std::isfinite(expected) && allowed > 0) {
    worst = std::max(worst, static_cast<double>(std::abs(actual - expected)) / allowed);
  }
}

// --- matrices in memory ----------------------------------------------------------------------------------------------

enum Layout { kDense, kOdd, kTransposed, kReversedRows, kReversedColumns, kRepeated, kHost, kHostTransposed, kLayouts };
const char* const kLayoutNames[] = {"dense",    "odd",  "transposed",      "reversed rows", "reversed columns",
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

// Fields in host memory, or on the device; poisoned.
template <class T>
class Field {
 public:
  Field(std::int64_t count, bool onDevice) : values_(static_cast<std::size_t>(count), static_cast<T>(-777)) {
    if (onDevice) {
      memory_ = std::make_unique<DeviceMemory>(*device, values_.data(), count * static_cast<std::int64_t>(sizeof(T)));
    }
  }
  T* pointer() { return memory_ ? memory_->as<T>() : values_.data(); }
  const std::vector<T>& values() {
    if (memory_) values_ = memory_->read<T>(static_cast<std::int64_t>(values_.size()));
    return values_;
  }

 private:
  std::vector<T> values_;
  std::unique_ptr<DeviceMemory> memory_;
};

// --- logitStats
// --------------------------------------------------------------------------------------------------------

struct LogitExtras {
  double temperature = 1;
  bool masked = false, resultsOnDevice = false;
  std::int64_t checkedRows = -1;  // of large ones only some are; -1: all
};

void checkLogits(PlacedMatrix& logits, Numbers& numbers, const LogitExtras& extras, const char* what) {
  const std::int64_t rows = logits.rows(), columns = logits.columns();
  const bool wide = logits.dtype() == DType::Float64;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> mask;
  for (std::int64_t r = 0; r < rows; r++) {
    targets.push_back(static_cast<std::int32_t>(numbers.below(columns)));
    mask.push_back(!extras.masked || numbers.below(3) != 0);
  }
  std::vector<std::int64_t> begins, ends;
  for (std::int64_t at = 0; at < rows;) {
    begins.push_back(at);
    at = std::min(rows, at + 1 + numbers.below(4));
    ends.push_back(at);
  }
  begins.push_back(rows);
  ends.push_back(rows);
  Field<double> logsumexp(rows, extras.resultsOnDevice), entropy(rows, extras.resultsOnDevice),
      targetLogprob(rows, extras.resultsOnDevice);
  Field<std::int32_t> argmax(rows, extras.resultsOnDevice), above(rows, extras.resultsOnDevice),
      equal(rows, extras.resultsOnDevice);
  std::vector<double> meanEntropy(begins.size(), -777), meanTarget(begins.size(), -777);

  CollapsarCudaLogits given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(logits.dtype());
  given.data = logits.data();
  given.data_on_device = logits.onDevice();
  given.rows = rows;
  given.columns = columns;
  given.row_stride = logits.rowStride;
  given.column_stride = logits.columnStride;
  given.targets = targets.data();
  given.mask = extras.masked ? mask.data() : nullptr;
  given.temperature = extras.temperature;
  given.sequences = static_cast<std::int64_t>(begins.size());
  given.begins = begins.data();
  given.ends = ends.data();
  CollapsarCudaLogitStats out{};
  out.size = sizeof out;
  out.on_device = extras.resultsOnDevice;
  out.logsumexp = logsumexp.pointer();
  out.entropy = entropy.pointer();
  out.target_logprob = targetLogprob.pointer();
  out.argmax = argmax.pointer();
  out.rank_above = above.pointer();
  out.rank_equal = equal.pointer();
  out.mean_entropy = meanEntropy.data();
  out.mean_target_logprob = meanTarget.data();
  const CollapsarCudaStatus status = (*device)->logit_stats(device->get(), &given, &out, nullptr, &device->error);
  CHECK_EQUAL(static_cast<int>(status), 0, device->error.message);
  if (status != COLLAPSAR_CUDA_OK) return;

  std::ostringstream label;
  label << what << ", " << kTypeNames[static_cast<int>(logits.dtype())] << " " << rows << " x " << columns << ", "
        << kLayoutNames[logits.layout()] << ", T " << extras.temperature << ", row ";
  const std::string at = label.str();
  const std::vector<double>&l = logsumexp.values(), &h = entropy.values(), &t = targetLogprob.values();
  const std::vector<std::int32_t>&a = argmax.values(), &ra = above.values(), &re = equal.values();
  Worst& worst = wide ? worstWide : worstNarrow;
  const std::int64_t step = extras.checkedRows < 0 ? 1 : std::max<std::int64_t>(1, rows / extras.checkedRows);
  for (std::int64_t r = 0; r < rows; r += step) {
    rowsChecked++;
    const auto i = static_cast<std::size_t>(r);
    if (mask[i] == 0) {
      CHECK(std::isnan(l[i]) && std::isnan(h[i]) && std::isnan(t[i]) && a[i] == -1 && ra[i] == -1 && re[i] == -1);
      continue;
    }
    const LogitReference expected = referenceLogits(logits.row(r), targets[i], extras.temperature);
    CHECK_NEAR(l[i], static_cast<double>(expected.logsumexp), gate(wide, expected.logsumexp), "logsumexp, ", at, r);
    CHECK_NEAR(h[i], static_cast<double>(expected.entropy), entropyGate(wide, expected.entropy), "entropy, ", at, r);
    CHECK_NEAR(t[i], static_cast<double>(expected.targetLogprob), gate(wide, expected.targetLogprob), "target, ", at,
               r);
    CHECK_EQUAL(a[i], expected.argmax, "argmax, ", at, r);
    CHECK_EQUAL(ra[i], expected.rankAbove, "above, ", at, r);
    CHECK_EQUAL(re[i], expected.rankEqual, "equal, ", at, r);
    if (std::isfinite(h[i])) CHECK(h[i] >= 0);
    if (std::isfinite(t[i])) CHECK(t[i] <= 0);
    note(worst.logsumexp, l[i], expected.logsumexp, gate(wide, expected.logsumexp));
    note(worst.entropy, h[i], expected.entropy, entropyGate(wide, expected.entropy));
    note(worst.targetLogprob, t[i], expected.targetLogprob, gate(wide, expected.targetLogprob));
  }
  for (std::size_t s = 0; s < begins.size(); s++) {
    long double sumH = 0, sumT = 0;
    int used = 0;
    for (std::int64_t r = begins[s]; r < ends[s]; r++) {
      if (mask[static_cast<std::size_t>(r)] == 0) continue;
      sumH += h[static_cast<std::size_t>(r)];
      sumT += t[static_cast<std::size_t>(r)];
      used++;
    }
    CHECK_NEAR(meanEntropy[s], used == 0 ? kNaN : static_cast<double>(sumH / used), 1e-12, "mean entropy, ", at, s);
    const double meanT = used == 0 ? kNaN : static_cast<double>(sumT / used);
    CHECK_NEAR(meanTarget[s], meanT, 1e-12 * (1 + std::abs(meanT)), "mean target, ", at, s);
  }
}

using Fill = std::function<double(std::int64_t row, std::int64_t column)>;

void fill(PlacedMatrix& matrix, const Fill& value) {
  for (std::int64_t r = 0; r < matrix.rows(); r++) {
    if (r > 0 && matrix.layout() == kRepeated) break;
    for (std::int64_t c = 0; c < matrix.columns(); c++) matrix.set(r, c, value(r, c));
  }
}

// Rows with special values anywhere, rarely and often.
Fill specials(Numbers& numbers, std::int64_t columns) {
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

void logitChecks() {
  Numbers numbers(options.seed * 1000 + 1);
  const std::vector<std::int64_t> sizes =
      options.tiny    ? std::vector<std::int64_t>{33, 4098, 40001}
      : options.quick ? std::vector<std::int64_t>{1, 2, 7, 8, 33, 255, 1000, 4097, 9001, 40000}
                      : std::vector<std::int64_t>{1,    2,    3,    7,     8,     9,     15,     31,    33,
                                                  64,   127,  255,  256,   257,   513,   1000,   1023,  2049,
                                                  4096, 4097, 8191, 16385, 40001, 65536, 100003, 151936};
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : sizes) {
      const std::int64_t rows = columns > 2000 ? 3 : 13;
      for (int layout = 0; layout < kLayouts; layout++) {
        if (options.quick && (layout + columns) % 3 != 0 && layout != kOdd) continue;
        const double spread = columns % 2 == 0 ? 4.0 : 0.5;
        PlacedMatrix logits(dtype, rows, columns, static_cast<Layout>(layout));
        fill(logits, [&](std::int64_t, std::int64_t) { return -1 + spread * numbers.bell(); });
        LogitExtras extras;
        extras.masked = layout % 2 == 1;
        extras.resultsOnDevice = columns % 3 == 0;
        checkLogits(logits, numbers, extras, "random");
      }
      PlacedMatrix special(dtype, options.quick ? 12 : 24, columns, columns % 2 == 0 ? kDense : kOdd);
      fill(special, specials(numbers, columns));
      checkLogits(special, numbers, {}, "special");
    }
    if (options.tiny) continue;
    for (const double offset : {1000.0, -1000.0, 30000.0, -3e-5}) {
      for (const double spread : {1e-4, 1.0, 8.0, 1000.0}) {
        PlacedMatrix logits(dtype, 3, 3001, kDense);
        fill(logits, [&](std::int64_t row, std::int64_t) {
          return row == 2 && numbers.below(2) == 0 ? -kInfinity : offset + spread * numbers.bell();
        });
        checkLogits(logits, numbers, {}, "offset");
      }
    }
    for (const double temperature : {1e-18, 1e-17, 1e-14, 1e-10}) {
      PlacedMatrix logits(dtype, 3, 500, kOdd);
      fill(logits, [&](std::int64_t row, std::int64_t) { return (row == 0 ? 3 : 0.3) * numbers.bell(); });
      LogitExtras extras;
      extras.temperature = temperature;
      checkLogits(logits, numbers, extras, "low temperature");
    }
    for (const double temperature : {0.5, 0.7, 1.3, 2.0, 0.01, 1e-6, 100.0, 1e6, 1e-18, 1e18}) {
      for (const double spread : {1.0, 6.0}) {
        if (dtype == DType::Float16 && temperature > 1e4) continue;
        PlacedMatrix logits(dtype, 3, 5000, kOdd);
        fill(logits, [&](std::int64_t, std::int64_t) { return 2 + spread * temperature * numbers.bell(); });
        LogitExtras extras;
        extras.temperature = temperature;
        checkLogits(logits, numbers, extras, "temperature");
      }
    }
    if (dtype != DType::Float16) {
      const double most = dtype == DType::Float64 ? 1e308 : 1e38;
      for (const double temperature : {1.0, 0.5}) {
        PlacedMatrix logits(dtype, 9, 3000, kDense);
        fill(logits, [&](std::int64_t row, std::int64_t c) -> double {
          const double i = static_cast<double>(c);
          if (row == 0) return c % 2 == 0 ? most : -most;
          if (row == 1) return -most;
          if (row == 2) return c == 9 ? 0.0 : -most;
          if (row == 3) return c == 9 ? -most : -1e-30 * i;
          if (row == 4) return -1e6 + numbers.bell();
          if (row == 5) return c < 1500 ? -most : numbers.bell();
          if (row == 6) return 0x1p20 + 0.25 * i;
          if (row == 7) return 720000.0 + 0.25 * i;
          return c < 1500 ? 1e7 : 1e7 + 3 * numbers.bell();
        });
        LogitExtras extras;
        extras.temperature = temperature;
        checkLogits(logits, numbers, extras, "extreme");
      }
    }
  }
  for (const GoldenCase& golden : goldenNumerics()) {
    const DType dtype = golden.dtype == "float64"   ? DType::Float64
                        : golden.dtype == "float32" ? DType::Float32
                        : golden.dtype == "float16" ? DType::Float16
                                                    : DType::BFloat16;
    PlacedMatrix logits(dtype, 1, static_cast<std::int64_t>(golden.bits.size()), kDense);
    for (std::size_t c = 0; c < golden.bits.size(); c++)
      logits.setBits(0, static_cast<std::int64_t>(c), golden.bits[c]);
    checkLogits(logits, numbers, {}, ("golden " + golden.name).c_str());
  }
  CHECK(!goldenNumerics().empty());
  if (!options.large) return;
  const auto large = [&](DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t checked, const char* what) {
    PlacedMatrix logits(dtype, rows, columns, kDense);
    fill(logits, [&](std::int64_t, std::int64_t) { return 3.0 * (numbers.uniform() + numbers.uniform() - 1.0) - 1.0; });
    LogitExtras extras;
    extras.checkedRows = checked;
    checkLogits(logits, numbers, extras, what);
  };
  large(DType::BFloat16, 1500, 151936, 40, "more rows than groups");
  large(DType::BFloat16, 1, 1 << 20, 1, "one row");
  large(DType::Float32, 5, 1 << 20, 5, "few long rows");
  large(DType::Float64, 2, 1 << 20, 2, "few long rows");
  large(DType::Float16, 400, 40001, 40, "odd columns");
  large(DType::BFloat16, 2000000, 32, 3000, "millions of short rows");
}

// --- scoreStats
// -------------------------------------------------------------------------------------------------------

struct RowLabels {
  std::vector<std::int32_t> own, signature;
  std::vector<std::int64_t> lengths;
};

RowLabels labelsFor(std::int64_t rows, std::int64_t columns, bool signatures, Numbers& numbers) {
  RowLabels labels;
  for (std::int64_t r = 0; r < rows; r++) {
    labels.own.push_back(static_cast<std::int32_t>(numbers.below(columns)));
    labels.lengths.push_back(numbers.below(300));
  }
  const std::int64_t distinct = numbers.below(3) == 0 ? 1 : std::max<std::int64_t>(1, columns / 3);
  for (std::int64_t c = 0; signatures && c < columns; c++) {
    labels.signature.push_back(static_cast<std::int32_t>(numbers.below(distinct)));
  }
  return labels;
}

// All fields, and how they are compared with the reference.
struct RowStatsFields {
  RowStatsFields(std::int64_t rows, int k, bool onDevice) : topK(k) {
    for (int i = 0; i < 7; i++) doubles.push_back(std::make_unique<Field<double>>(rows, onDevice));
    for (int i = 0; i < 3; i++) integers.push_back(std::make_unique<Field<std::int32_t>>(rows, onDevice));
    integers.push_back(std::make_unique<Field<std::int32_t>>(rows * k, onDevice));
    stats.size = sizeof stats;
    stats.on_device = onDevice;
    double** const d[] = {&stats.matched_seq,      &stats.matched_token,    &stats.marginal_seq,
                          &stats.marginal_token,   &stats.loo_marginal_seq, &stats.loo_marginal_token,
                          &stats.posterior_entropy};
    for (std::size_t i = 0; i < 7; i++) *d[i] = doubles[i]->pointer();
    std::int32_t** const n[] = {&stats.argmax, &stats.rank_above, &stats.rank_equal, &stats.top_columns};
    for (std::size_t i = 0; i < 4; i++) *n[i] = integers[i]->pointer();
    stats.top_k = k;
  }
  std::vector<std::unique_ptr<Field<double>>> doubles;
  std::vector<std::unique_ptr<Field<std::int32_t>>> integers;
  CollapsarCudaRowStats stats{};
  int topK;
};

void compareRow(const std::vector<double>& scores, std::int64_t r, const RowLabels& labels, RowStatsFields& fields,
                bool wide, const std::string& at) {
  rowsChecked++;
  const auto i = static_cast<std::size_t>(r);
  const std::int32_t* const signature = labels.signature.empty() ? nullptr : labels.signature.data();
  const ReferenceRow expected = referenceRow(scores, labels.own[i], labels.lengths[i], signature);
  const double own = scores[static_cast<std::size_t>(labels.own[i])];
  const double length = static_cast<double>(std::max<std::int64_t>(labels.lengths[i], 1));
  const long double values[] = {own,
                                own / length,
                                expected.marginalSeq,
                                expected.marginalToken,
                                expected.looMarginalSeq,
                                expected.looMarginalToken,
                                expected.posteriorEntropy};
  const char* const names[] = {"matchedSeq",     "matchedToken",     "marginalSeq",     "marginalToken",
                               "looMarginalSeq", "looMarginalToken", "posteriorEntropy"};
  for (std::size_t f = 0; f < 7; f++) {
    const double actual = fields.doubles[f]->values()[i];
    const double allowed = f < 2    ? 0
                           : f == 6 ? entropyGate(wide, values[f])
                                    : marginalGate(wide, values[f], std::log(static_cast<long double>(scores.size())));
    CHECK_NEAR(actual, static_cast<double>(values[f]), allowed, names[f], ", ", at, r);
    Worst& worst = wide ? worstWide : worstNarrow;
    if (f >= 2) note(f == 6 ? worst.entropy : worst.marginal, actual, values[f], allowed);
  }
  CHECK_EQUAL(fields.integers[0]->values()[i], expected.argmax, "argmax, ", at, r);
  CHECK_EQUAL(fields.integers[1]->values()[i], expected.rankAbove, "above, ", at, r);
  CHECK_EQUAL(fields.integers[2]->values()[i], expected.rankEqual, "equal, ", at, r);
  for (int k = 0; k < fields.topK; k++) {
    CHECK_EQUAL(fields.integers[3]->values()[i * static_cast<std::size_t>(fields.topK) + static_cast<std::size_t>(k)],
                expected.byRank[static_cast<std::size_t>(k)], "top ", k, ", ", at, r);
  }
}

// The fields, once: each look at a device field downloads it.
void settle(RowStatsFields& fields) {
  for (auto& field : fields.doubles) {
    auto host = std::make_unique<Field<double>>(0, false);
    const std::vector<double> values = field->values();
    host = std::make_unique<Field<double>>(static_cast<std::int64_t>(values.size()), false);
    std::copy(values.begin(), values.end(), host->pointer());
    field = std::move(host);
  }
  for (auto& field : fields.integers) {
    const std::vector<std::int32_t> values = field->values();
    auto host = std::make_unique<Field<std::int32_t>>(static_cast<std::int64_t>(values.size()), false);
    std::copy(values.begin(), values.end(), host->pointer());
    field = std::move(host);
  }
}

void checkScores(PlacedMatrix& scores, Numbers& numbers, bool signatures, int topK, bool resultsOnDevice,
                 std::int64_t checkedRows, const char* what) {
  const std::int64_t rows = scores.rows(), columns = scores.columns();
  const RowLabels labels = labelsFor(rows, columns, signatures, numbers);
  RowStatsFields fields(rows, topK, resultsOnDevice);
  CollapsarCudaScores given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(scores.dtype());
  given.data = scores.data();
  given.data_on_device = scores.onDevice();
  given.rows = rows;
  given.columns = columns;
  given.row_stride = scores.rowStride;
  given.column_stride = scores.columnStride;
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

void scoreChecks() {
  Numbers numbers(options.seed * 1000 + 2);
  const std::vector<std::int64_t> sizes =
      options.tiny    ? std::vector<std::int64_t>{3, 100, 1024, 20001}
      : options.quick ? std::vector<std::int64_t>{1, 2, 3, 8, 31, 33, 64, 100, 512, 515, 1024, 3000, 9000, 20000}
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
  if (!options.large) return;
  const auto large = [&](DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t checked, const char* what) {
    PlacedMatrix scores(dtype, rows, columns, kDense);
    fill(scores, [&](std::int64_t, std::int64_t) { return -200 + 30 * (numbers.uniform() + numbers.uniform()); });
    checkScores(scores, numbers, rows % 2 == 1, 8, false, checked, what);
  };
  large(DType::Float32, 3000000, 2, 3000, "millions of short rows");
  large(DType::Float64, 1500001, 8, 3000, "millions of short rows");
  large(DType::Float32, 5000, 4096, 60, "warp rows");
  large(DType::Float64, 1, 1 << 20, 1, "one row");
  large(DType::BFloat16, 7, 65536, 7, "few long rows");
}

// --- sumTokens
// --------------------------------------------------------------------------------------------------------

// Tokens [P,R,T] or packed [P,N], NaN wherever nothing may be read.
struct PlacedTokens {
  PlacedTokens(DType type, std::int64_t p, std::int64_t r, std::int64_t longest, bool isPacked, int axisOrder,
               bool host, Numbers& numbers)
      : dtype(type), prompts(p), rows(r), packed(isPacked), onHost(host) {
    std::int64_t total = 1;  // starts off by one: unaligned
    for (std::int64_t i = 0; i < r; i++) {
      lengths.push_back(numbers.below(5) == 0 ? 0 : numbers.below(longest + 1));
      if (i == 0) lengths[0] = longest;
      offsets.push_back(total);
      total += lengths.back() + numbers.below(2);
    }
    const std::int64_t tokens = packed ? total : longest;
    if (packed) {
      tokenStride = axisOrder == 2 ? p : 1;
      promptStride = axisOrder == 2 ? 1 : tokens;
      rowStride = 0;
    } else if (axisOrder == 0) {  // [P,R,T]
      tokenStride = 1;
      rowStride = tokens;
      promptStride = tokens * r;
    } else if (axisOrder == 1) {  // [R,P,T]
      tokenStride = 1;
      promptStride = tokens;
      rowStride = tokens * p;
    } else {  // [T,P,R]
      rowStride = 1;
      promptStride = r;
      tokenStride = r * p;
    }
    count = packed ? tokens * p : tokens * p * r;
    elements = std::make_unique<Elements>(type, std::max<std::int64_t>(count, 1));
    for (std::int64_t i = 0; i < count; i++) elements->set(i, kNaN);
    for (std::int64_t i = 0; i < p; i++) {
      for (std::int64_t j = 0; j < r; j++) {
        for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(j)]; t++) {
          elements->set(at(i, j, t), -0.02 - 3 * numbers.uniform() * numbers.uniform());
        }
      }
    }
  }
  std::int64_t at(std::int64_t p, std::int64_t r, std::int64_t t) const {
    const std::int64_t start = packed ? offsets[static_cast<std::size_t>(r)] * tokenStride : r * rowStride;
    return p * promptStride + start + t * tokenStride;
  }
  CollapsarCudaTokens given() {
    CollapsarCudaTokens out{};
    out.size = sizeof out;
    out.dtype = static_cast<std::int32_t>(dtype);
    out.data = std::as_const(*elements).data();
    if (!onHost) {
      memory = std::make_unique<DeviceMemory>(
          *device, out.data, std::max<std::int64_t>(count, 1) * static_cast<std::int64_t>(sizeOf(dtype)));
      out.data = memory->as<char>();
    }
    out.data_on_device = !onHost;
    out.prompts = prompts;
    out.rows = rows;
    out.prompt_stride = promptStride;
    out.row_stride = rowStride;
    out.token_stride = tokenStride;
    out.lengths = lengths.data();
    out.row_offsets = packed ? offsets.data() : nullptr;
    return out;
  }
  long double sum(std::int64_t p, std::int64_t r) const {
    long double total = 0;
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(r)]; t++) total += elements->get(at(p, r, t));
    return total;
  }

  DType dtype;
  std::int64_t prompts, rows;
  bool packed, onHost;
  std::int64_t promptStride = 0, rowStride = 0, tokenStride = 0, count = 0;
  std::vector<std::int64_t> lengths, offsets;
  std::unique_ptr<Elements> elements;
  std::unique_ptr<DeviceMemory> memory;
};

void checkTokens(PlacedTokens& tokens, bool resultsOnDevice, bool scattered, const char* what) {
  const std::int64_t columns = scattered ? tokens.prompts + 3 : tokens.prompts;
  std::vector<std::int32_t> columnOf;
  for (std::int64_t p = 0; p < tokens.prompts; p++) {
    columnOf.push_back(static_cast<std::int32_t>((p * 1 + 2) % columns));
  }
  Field<double> sums(tokens.rows * columns, resultsOnDevice);
  const CollapsarCudaTokens given = tokens.given();
  CollapsarCudaTokenSums out{};
  out.size = sizeof out;
  out.on_device = resultsOnDevice;
  out.sums = sums.pointer();
  out.columns = columns;
  out.column_of = scattered ? columnOf.data() : nullptr;
  const CollapsarCudaStatus status = (*device)->sum_tokens(device->get(), &given, &out, nullptr, &device->error);
  CHECK_EQUAL(static_cast<int>(status), 0, device->error.message);
  if (status != COLLAPSAR_CUDA_OK) return;
  std::ostringstream label;
  label << what << ", " << kTypeNames[static_cast<int>(tokens.dtype)] << " [" << tokens.prompts << "," << tokens.rows
        << "], token stride " << tokens.tokenStride << (tokens.packed ? ", packed" : "")
        << (tokens.onHost ? ", host" : "");
  const std::vector<double>& values = sums.values();
  std::vector<double> expected(values.size(), -777);
  std::int64_t invalid[3] = {-1, -1, -1};
  for (std::int64_t p = 0; p < tokens.prompts; p++) {
    for (std::int64_t r = 0; r < tokens.rows; r++) {
      const std::int64_t column = scattered ? columnOf[static_cast<std::size_t>(p)] : p;
      expected[static_cast<std::size_t>(r * columns + column)] = static_cast<double>(tokens.sum(p, r));
      for (std::int64_t t = 0; invalid[0] < 0 && t < tokens.lengths[static_cast<std::size_t>(r)]; t++) {
        if (tokens.elements->get(tokens.at(p, r, t)) < kInfinity) continue;
        invalid[0] = p;
        invalid[1] = r;
        invalid[2] = t;
      }
    }
  }
  for (std::size_t i = 0; i < values.size(); i++) {
    const double allowed = std::isfinite(expected[i]) ? 4 * ulp(std::max(1.0, std::abs(expected[i]))) : 0;
    CHECK_NEAR(values[i], expected[i], allowed, label.str(), ", entry ", i);
    note(worstWide.sums, values[i], expected[i], allowed);
  }
  rowsChecked += static_cast<long>(values.size());
  CHECK_EQUAL(out.invalid_prompt, invalid[0], label.str());
  CHECK_EQUAL(out.invalid_row, invalid[1], label.str());
  CHECK_EQUAL(out.invalid_token, invalid[2], label.str());
}

void tokenChecks() {
  Numbers numbers(options.seed * 1000 + 3);
  const std::vector<std::int64_t> longest =
      options.tiny    ? std::vector<std::int64_t>{17, 3000}
      : options.quick ? std::vector<std::int64_t>{1, 5, 17, 70, 600, 3000}
                      : std::vector<std::int64_t>{1, 2, 5, 16, 17, 64, 70, 255, 600, 2048, 5000, 40000};
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t tokens : longest) {
      for (const bool packed : {false, true}) {
        for (int order = 0; order < 3; order++) {
          for (const bool host : {false, true}) {
            if (options.quick && host && (order + tokens) % 2 == 0) continue;
            const std::int64_t rows = tokens > 1000 ? 5 : 37, prompts = tokens > 1000 ? 3 : 6;
            PlacedTokens placed(dtype, prompts, rows, tokens, packed, order, host, numbers);
            checkTokens(placed, tokens % 2 == 1, order == 1, "random");
            // -inf is a sum like others; NaN and +inf are named.
            for (const double odd : {-kInfinity, kNaN, kInfinity}) {
              const std::int64_t p = numbers.below(prompts), r = numbers.below(rows);
              if (placed.lengths[static_cast<std::size_t>(r)] == 0) continue;
              placed.elements->set(placed.at(p, r, numbers.below(placed.lengths[static_cast<std::size_t>(r)])), odd);
              checkTokens(placed, tokens % 2 == 0, false, "special");
            }
          }
        }
      }
    }
  }
  // Sums that overflow without any invalid token, before one that has one.
  PlacedTokens large(DType::Float64, 2, 4, 6, false, 0, false, numbers);
  for (std::int64_t t = 0; t < 6; t++) large.elements->set(large.at(0, 0, t), 1.7e308);
  checkTokens(large, false, false, "overflow");
  large.elements->set(large.at(1, 0, 3), kNaN);
  checkTokens(large, false, false, "overflow");
  if (!options.large) return;
  PlacedTokens many(DType::BFloat16, 64, 20000, 4, false, 0, false, numbers);
  checkTokens(many, false, false, "millions of short segments");
  PlacedTokens longOnes(DType::Float32, 2, 2, 3000000, false, 0, false, numbers);
  checkTokens(longOnes, false, false, "few long segments");
}

// --- tokens to row statistics
// -------------------------------------------------------------------------------------------

void fusedChecks() {
  Numbers numbers(options.seed * 1000 + 4);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t prompts : {1, 2, 9, 40, 600}) {
      for (const bool host : {false, true}) {
        PlacedTokens tokens(dtype, prompts, 21, 30, prompts % 2 == 0, static_cast<int>(prompts % 3), host, numbers);
        if (prompts == 9) tokens.elements->set(tokens.at(4, 0, 1), kNaN);
        RowLabels labels = labelsFor(21, prompts, prompts % 2 == 0, numbers);
        labels.lengths = tokens.lengths;
        RowStatsFields fields(21, static_cast<int>(std::min<std::int64_t>(prompts, 8)), host);
        std::vector<double> sums(static_cast<std::size_t>(21 * prompts), -777);
        CollapsarCudaTokenSums out{};
        out.size = sizeof out;
        out.sums = sums.data();
        out.columns = prompts;
        const CollapsarCudaTokens given = tokens.given();
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(), nullptr,
                                               labels.signature.empty() ? nullptr : labels.signature.data()};
        const CollapsarCudaStatus status = (*device)->tokens_to_row_stats(device->get(), &given, &rowLabels,
                                                                          &fields.stats, &out, nullptr, &device->error);
        CHECK_EQUAL(static_cast<int>(status), 0, device->error.message);
        if (status != COLLAPSAR_CUDA_OK) continue;
        settle(fields);
        for (std::int64_t r = 0; r < 21; r++) {
          const std::vector<double> row(sums.begin() + r * prompts, sums.begin() + (r + 1) * prompts);
          for (std::int64_t p = 0; p < prompts; p++) {
            const double expected = static_cast<double>(tokens.sum(p, r));
            CHECK_NEAR(row[static_cast<std::size_t>(p)], expected, 4 * ulp(std::max(1.0, std::abs(expected))));
          }
          compareRow(row, r, labels, fields, true, "fused, row ");
        }
        CHECK_EQUAL(out.invalid_prompt, prompts == 9 ? 4 : -1);
      }
    }
  }
}

// --- memory, determinism, errors
// ----------------------------------------------------------------------------------------

std::uint64_t plainSum(const unsigned char* data, std::int64_t bytes) {
  std::uint64_t sum = 0;
  std::int64_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum += word;
  }
  for (; at < bytes; at++) sum += data[at];
  return sum;
}

void memoryChecks() {
  Numbers numbers(options.seed * 1000 + 5);
  const std::int64_t bytes = options.quick ? 300000 : 50000000;
  std::vector<unsigned char> data(static_cast<std::size_t>(bytes));
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(numbers.bits());
  DeviceMemory memory(*device, data.data(), bytes);
  CHECK(memory.read<unsigned char>(bytes) == data);
  for (const std::int64_t offset : {0, 1, 2, 3, 7, 8, 9, 15, 16, 100}) {
    for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, std::int64_t{8},
                                    std::int64_t{23}, std::int64_t{100}, std::int64_t{4095}, bytes - 200}) {
      std::uint64_t sum = 0;
      double seconds = -1;
      CollapsarCudaControl control{};
      control.size = sizeof control;
      control.kernel_seconds = &seconds;
      CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<unsigned char>() + offset, size, &sum,
                                                         &control, &device->error)),
                  0);
      CHECK_EQUAL(sum, plainSum(data.data() + offset, size), "offset ", offset, " size ", size);
      CHECK(seconds >= 0);
    }
  }
}

// All numbers that `run` gives, again and again, bit by bit.
template <class Run>
void checkRepeats(const char* what, Run run) {
  const std::vector<double> first = run();
  for (int repeat = 0; repeat < 3; repeat++) {
    const std::vector<double> again = run();
    const bool same = again.size() == first.size() && std::memcmp(again.data(), first.data(), 8 * first.size()) == 0;
    CHECK_EQUAL(same, true, what);
    rowsChecked++;
  }
}

void addNumbers(std::vector<double>& all, RowStatsFields& fields) {
  settle(fields);
  for (const auto& field : fields.doubles) {
    all.insert(all.end(), field->values().begin(), field->values().end());
  }
  for (const auto& field : fields.integers) {
    all.insert(all.end(), field->values().begin(), field->values().end());
  }
}

// The same bits on every run.
void repeatChecks() {
  Numbers numbers(options.seed * 1000 + 7);
  for (const DType dtype : kAllTypes) {
    for (const std::int64_t columns : {300, 40000}) {
      PlacedMatrix logits(dtype, 5, columns, kOdd);
      fill(logits, [&](std::int64_t, std::int64_t) { return 5 * numbers.bell(); });
      const std::vector<std::int32_t> targets(5, 17);
      checkRepeats("logit_stats", [&] {
        std::vector<double> doubles(15, -777);
        std::vector<std::int32_t> integers(15, -777);
        CollapsarCudaLogits given{};
        given.size = sizeof given;
        given.dtype = static_cast<std::int32_t>(dtype);
        given.data = logits.data();
        given.data_on_device = 1;
        given.rows = 5;
        given.columns = columns;
        given.row_stride = logits.rowStride;
        given.column_stride = 1;
        given.targets = targets.data();
        given.temperature = 0.7;
        CollapsarCudaLogitStats out{};
        out.size = sizeof out;
        out.logsumexp = doubles.data();
        out.entropy = doubles.data() + 5;
        out.target_logprob = doubles.data() + 10;
        out.argmax = integers.data();
        out.rank_above = integers.data() + 5;
        out.rank_equal = integers.data() + 10;
        device->expectOk((*device)->logit_stats(device->get(), &given, &out, nullptr, &device->error));
        doubles.insert(doubles.end(), integers.begin(), integers.end());
        return doubles;
      });
    }
    for (const std::int64_t columns : {20, 200, 3000, 20000}) {
      PlacedMatrix scores(dtype, 9, columns, kOdd);
      fill(scores, [&](std::int64_t, std::int64_t) { return -120 + 5 * numbers.bell(); });
      const RowLabels labels = labelsFor(9, columns, columns == 200, numbers);
      checkRepeats("score_stats", [&] {
        RowStatsFields fields(9, 8, false);
        CollapsarCudaScores given{};
        given.size = sizeof given;
        given.dtype = static_cast<std::int32_t>(dtype);
        given.data = scores.data();
        given.data_on_device = 1;
        given.rows = 9;
        given.columns = columns;
        given.row_stride = scores.rowStride;
        given.column_stride = 1;
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(),
                                               labels.lengths.data(),
                                               labels.signature.empty() ? nullptr : labels.signature.data()};
        device->expectOk(
            (*device)->score_stats(device->get(), &given, &rowLabels, &fields.stats, nullptr, &device->error));
        std::vector<double> all;
        addNumbers(all, fields);
        return all;
      });
    }
    for (const std::int64_t longest : {30, 700, 9000}) {
      PlacedTokens tokens(dtype, 6, 7, longest, false, 0, false, numbers);
      const CollapsarCudaTokens given = tokens.given();
      const auto into = [](std::vector<double>& sums) {
        CollapsarCudaTokenSums out{};
        out.size = sizeof out;
        out.sums = sums.data();
        out.columns = 6;
        return out;
      };
      checkRepeats("sum_tokens", [&] {
        std::vector<double> sums(42, -777);
        CollapsarCudaTokenSums out = into(sums);
        device->expectOk((*device)->sum_tokens(device->get(), &given, &out, nullptr, &device->error));
        return sums;
      });
      const RowLabels labels = labelsFor(7, 6, false, numbers);
      checkRepeats("tokens_to_row_stats", [&] {
        RowStatsFields fields(7, 6, false);
        std::vector<double> all(42, -777);
        CollapsarCudaTokenSums out = into(all);
        const CollapsarCudaRowLabels rowLabels{sizeof(CollapsarCudaRowLabels), 0, labels.own.data(), nullptr, nullptr};
        device->expectOk((*device)->tokens_to_row_stats(device->get(), &given, &rowLabels, &fields.stats, &out, nullptr,
                                                        &device->error));
        addNumbers(all, fields);
        return all;
      });
    }
  }
}

void errorChecks() {
  CollapsarCudaError error{};
  void* pointer = nullptr;
  CHECK_EQUAL(static_cast<int>((*device)->alloc(device->get(), std::int64_t{1} << 46, &pointer, &error)),
              static_cast<int>(COLLAPSAR_CUDA_OUT_OF_MEMORY));
  CHECK_EQUAL(error.asked_bytes, std::int64_t{1} << 46);
  CHECK(error.free_bytes > 0 && std::strlen(error.message) > 20 && error.code == COLLAPSAR_CUDA_OUT_OF_MEMORY);
  CollapsarCudaDevice* none = nullptr;
  CHECK_EQUAL(static_cast<int>((*device)->open(4711, &none, &error)), static_cast<int>(COLLAPSAR_CUDA_BAD_DEVICE));
  CHECK(none == nullptr);

  unsigned char handle[66];
  std::memset(handle, 0x5a, sizeof handle);
  CollapsarCudaIpcImport import{};
  import.size = sizeof import;
  import.handle = handle;
  import.bytes = 100;
  for (const std::uint32_t bytes : {64u, 66u, 3u}) {
    import.handle_bytes = bytes;
    CHECK_EQUAL(static_cast<int>((*device)->ipc_import(device->get(), &import, &error)),
                static_cast<int>(COLLAPSAR_CUDA_BAD_HANDLE), bytes);
  }

  // Cancelled before it starts; a wrong size; then the device still works.
  const std::vector<float> values(1000, 1.0f);
  DeviceMemory memory(*device, values.data(), 4000);
  volatile std::int32_t cancelled = 1;
  CollapsarCudaControl control{};
  control.size = sizeof control;
  control.cancelled = &cancelled;
  std::uint64_t sum = 0;
  CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<char>(), 4000, &sum, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_CANCELLED));
  control.size = 3;
  CHECK_EQUAL(static_cast<int>((*device)->read_bytes(device->get(), memory.as<char>(), 4000, &sum, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_INVALID));
  std::int64_t freeBytes = 0, totalBytes = 0;
  CHECK_EQUAL(static_cast<int>((*device)->memory_info(device->get(), &freeBytes, &totalBytes, &error)), 0);
  CHECK(freeBytes > 0 && freeBytes <= totalBytes);

  // Progress reaches the total, and no further.
  struct Seen {
    std::int64_t done = 0, total = 0;
    bool rising = true;
  } seen;
  cancelled = 0;
  control = {};
  control.size = sizeof control;
  control.cancelled = &cancelled;
  control.progress = [](void* context, std::int64_t done, std::int64_t total) {
    auto* const all = static_cast<Seen*>(context);
    all->rising = all->rising && done >= all->done;
    all->done = done;
    all->total = total;
  };
  control.progress_context = &seen;
  double logsumexp[10];
  CollapsarCudaLogits given{};
  given.size = sizeof given;
  given.dtype = 1;
  given.data = values.data();
  given.rows = 10;
  given.columns = 100;
  given.row_stride = 100;
  given.column_stride = 1;
  given.temperature = 1;
  CollapsarCudaLogitStats out{};
  out.size = sizeof out;
  out.logsumexp = logsumexp;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, &control, &error)), 0,
              error.message);
  CHECK(seen.rising && seen.done == 1000 && seen.total == 1000);
  CHECK_NEAR(logsumexp[9], 1 + std::log(100.0), 1e-6);
  given.temperature = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, &control, &error)),
              static_cast<int>(COLLAPSAR_CUDA_INVALID));

  // No rows, no columns.
  given.temperature = 1;
  given.columns = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, nullptr, &error)), 0, error.message);
  CHECK_EQUAL(logsumexp[3], -kInfinity);
  given.rows = 0;
  CHECK_EQUAL(static_cast<int>((*device)->logit_stats(device->get(), &given, &out, nullptr, &error)), 0, error.message);
}

bool runSection(const char* name, void (*body)()) {
  if (!options.only.empty() && options.only != name) return true;
  failures() = 0;
  rowsChecked = 0;
  body();
  std::cout << name << ": " << rowsChecked << " rows checked, " << failures() << " failed\n" << std::flush;
  return failures() == 0;
}

void printWorst(const char* what, const Worst& worst) {
  std::cout << "largest errors, in gates, " << what << ": log-sum-exp " << worst.logsumexp << ", entropy "
            << worst.entropy << ", target log-prob " << worst.targetLogprob << ", marginals " << worst.marginal
            << ", sums " << worst.sums << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    const std::string argument = arguments[i];
    const char* const next = i + 1 < count ? arguments[i + 1] : "";
    if (argument == "--quick" || argument == "--tiny") {
      options.quick = true;
      options.tiny = argument == "--tiny";
    } else if (argument == "--large") {
      options.large = true;
    } else if (argument == "--device" || argument == "--seed" || argument == "--only") {
      if (argument == "--device") options.device = std::atoi(next);
      if (argument == "--seed") options.seed = std::strtoull(next, nullptr, 10);
      if (argument == "--only") options.only = next;
      i++;
    } else {
      require(options.backend == nullptr, "unknown argument " + argument);
      options.backend = arguments[i];
    }
  }
  require(options.backend != nullptr,
          "no backend: cuda_check BACKEND.so [--device N] [--tiny | --quick | --large] [--seed N] [--only SECTION]");
  CudaDevice opened(options.backend, options.device);
  device = &opened;
  std::cout << opened.info().name << ", compute capability " << opened.info().compute_major << "."
            << opened.info().compute_minor << ", " << opened.info().multiprocessors << " multiprocessors; "
            << opened->build << "\n";
  bool passed = true;
  passed &= runSection("logits", logitChecks);
  passed &= runSection("scores", scoreChecks);
  passed &= runSection("tokens", tokenChecks);
  passed &= runSection("fused", fusedChecks);
  passed &= runSection("memory", memoryChecks);
  passed &= runSection("repeats", repeatChecks);
  passed &= runSection("errors", errorChecks);
  printWorst("16 and 32 bits", worstNarrow);
  printWorst("float64", worstWide);
  std::cout << (passed ? "all checks passed\n" : "CHECKS FAILED\n");
  return passed ? 0 : 1;
}
