// The section "tokens": sumTokens.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <vector>

#include "cuda_check.h"
#include "gates.h"
#include "placed_tokens.h"
#include "result_field.h"
#include "test/check.h"
#include "test/random_numbers.h"

namespace collapsar::test {
namespace {

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

// As long as a row may be, zeros after a NaN: every thread that looks for that goes on to the row's end.
void checkLongestRow() {
  static constexpr std::int64_t kTokens = INT32_MAX - 64;
  constexpr std::int64_t kPart = std::int64_t{1} << 25;
  const std::vector<std::uint16_t> zeros(static_cast<std::size_t>(kPart));
  DeviceMemory memory(*device, kTokens * 2);
  std::uint16_t* const row = memory.as<std::uint16_t>();
  for (std::int64_t at = 0; at < kTokens; at += kPart) {
    device->expectOk((*device)->upload(device->get(), row + at, zeros.data(), 2 * std::min(kPart, kTokens - at),
                                       nullptr, &device->error));
  }
  const std::uint16_t nan = 0x7fc0;
  device->expectOk((*device)->upload(device->get(), row, &nan, sizeof nan, nullptr, &device->error));
  double sum = 0;
  CollapsarCudaTokens given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(DType::BFloat16);
  given.data = row;
  given.data_on_device = 1;
  given.prompts = given.rows = given.token_stride = 1;
  given.prompt_stride = given.row_stride = kTokens;
  given.lengths = &kTokens;
  CollapsarCudaTokenSums out{};
  out.size = sizeof out;
  out.sums = &sum;
  out.columns = 1;
  CHECK_EQUAL(static_cast<int>((*device)->sum_tokens(device->get(), &given, &out, nullptr, &device->error)), 0,
              device->error.message);
  CHECK(std::isnan(sum));
  CHECK_EQUAL(out.invalid_token, std::int64_t{0});
  rowsChecked++;
}

}  // namespace

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
  for (const DType dtype : kAllTypes) {
    // The few lanes of short segments have a long one among them.
    for (const std::int64_t others : {3, 90}) {
      PlacedTokens uneven(dtype, 3, others == 3 ? 400 : 20, 5000 - others, false, 0, false, numbers);
      uneven.cutOthers(others);
      checkTokens(uneven, true, false, "one long segment");
    }
    PlacedTokens backwards(dtype, 3, 5, 200, false, 3, false, numbers);
    checkTokens(backwards, false, true, "prompts backwards");
  }
  // More segments than the grid takes at a time.
  for (const std::int64_t longest : {4, 700, 1700}) {
    const std::int64_t prompts = options.tiny ? 2 : longest > 1000 ? 3 : 59, rows = longest > 1000 ? 901 : 701;
    PlacedTokens rounds(DType::BFloat16, prompts, rows, longest, false, 1, false, numbers);
    checkTokens(rounds, longest == 700, true, "several rounds");
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
  checkLongestRow();
}

}  // namespace collapsar::test
