// sumTokens, and tokensToRowStats, which goes on from the sums.
#include <algorithm>
#include <cmath>
#include <vector>

#include "moments.h"
#include "operations.h"
#include "row_stats.h"
#include "through_rows.h"

namespace fake_cuda {
namespace {

// The sums of row r under all prompts, in the order of prompts; notes invalid tokens.
void sumsOfRow(const CollapsarCudaTokens* tokens, std::int64_t row, std::vector<double>& sums,
               CollapsarCudaTokenSums* invalid) {
  const std::int64_t start =
      tokens->row_offsets != nullptr ? tokens->row_offsets[row] * tokens->token_stride : row * tokens->row_stride;
  for (std::int64_t p = 0; p < tokens->prompts; ++p) {
    double sum = 0;
    for (std::int64_t t = 0; t < tokens->lengths[row]; ++t) {
      const double value =
          valueAt(tokens->data, tokens->dtype, p * tokens->prompt_stride + start + t * tokens->token_stride);
      sum += value;
      if (!(std::isnan(value) || value == kInfinity)) continue;
      const bool first = invalid->invalid_prompt < 0 || p < invalid->invalid_prompt ||
                         (p == invalid->invalid_prompt && row < invalid->invalid_row);
      if (!first) continue;
      invalid->invalid_prompt = p;
      invalid->invalid_row = row;
      invalid->invalid_token = t;
    }
    sums[static_cast<std::size_t>(p)] = sum;
  }
}

std::int64_t longest(const CollapsarCudaTokens* tokens) {
  return tokens->rows == 0 ? 0 : *std::max_element(tokens->lengths, tokens->lengths + tokens->rows);
}

}  // namespace

Status sumTokens(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens, CollapsarCudaTokenSums* out,
                 const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(tokens, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("sum_tokens", device, control, error));
  COLLAPSAR_FAKE_TRY(checkPlace(device, {out->sums}, out->on_device != 0, error));
  out->invalid_prompt = out->invalid_row = out->invalid_token = -1;
  std::vector<double> sums(static_cast<std::size_t>(tokens->prompts));
  return throughRows(device, tokens->data_on_device != 0, tokens->rows, tokens->prompts * longest(tokens),
                     tokens->dtype, control, error, [&](std::int64_t row) {
                       sumsOfRow(tokens, row, sums, out);
                       for (std::int64_t p = 0; p < tokens->prompts; ++p) {
                         const std::int64_t column = out->column_of == nullptr ? p : out->column_of[p];
                         out->sums[row * out->columns + column] =
                             fails("wrong") ? 1 : sums[static_cast<std::size_t>(p)];
                       }
                     });
}

Status tokensToRowStats(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                        const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                        CollapsarCudaTokenSums* given, const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(tokens, error));
  COLLAPSAR_FAKE_TRY(checkSize(labels, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("tokens_to_row_stats", device, control, error));
  COLLAPSAR_FAKE_TRY(checkRowStats(device, out, error));
  if (given != nullptr) COLLAPSAR_FAKE_TRY(checkPlace(device, {given->sums}, given->on_device != 0, error));
  CollapsarCudaTokenSums own{};
  CollapsarCudaTokenSums* const noted = given != nullptr ? given : &own;
  noted->invalid_prompt = noted->invalid_row = noted->invalid_token = -1;
  std::vector<double> sums(static_cast<std::size_t>(tokens->prompts));
  return throughRows(device, tokens->data_on_device != 0, tokens->rows, tokens->prompts * longest(tokens),
                     tokens->dtype, control, error, [&](std::int64_t row) {
                       sumsOfRow(tokens, row, sums, noted);
                       if (given != nullptr) std::copy(sums.begin(), sums.end(), given->sums + row * tokens->prompts);
                       statsOfRow(sums, row, labels,
                                  (labels->lengths != nullptr ? labels->lengths : tokens->lengths)[row], out);
                     });
}

}  // namespace fake_cuda
