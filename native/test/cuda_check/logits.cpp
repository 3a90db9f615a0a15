// The section "logits": logitStats.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_check.h"
#include "gates.h"
#include "placed_matrix.h"
#include "result_field.h"
#include "test/check.h"
#include "test/random_numbers.h"
#include "test/references/golden_numerics.h"
#include "test/references/logits.h"

namespace collapsar::test {
namespace {

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

  auto given = logits.given<CollapsarCudaLogits>();
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

}  // namespace

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
    const double lowest = dtype == DType::Float16 ? -65504.0 : -3e38;
    for (const double temperature : {0.5, 0.7, 1.3, 2.0, 0.01, 1e-6, 100.0, 1e6, 1e-18, 1e18}) {
      for (const double spread : {1.0, 6.0}) {
        if (dtype == DType::Float16 && temperature > 1e4) continue;
        PlacedMatrix logits(dtype, 5, 5000, kOdd);
        fill(logits, [&](std::int64_t row, std::int64_t) {
          if (row > 2 && numbers.below(3) == 0) return row == 3 ? -kInfinity : lowest;
          return 2 + spread * temperature * numbers.bell();
        });
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

}  // namespace collapsar::test
