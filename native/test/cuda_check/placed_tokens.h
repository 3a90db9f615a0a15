// Log-probs of tokens in memory of the host or the device, padded or packed, in any order of axes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_check.h"
#include "test/random_numbers.h"

namespace collapsar::test {

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
    } else if (axisOrder == 3) {  // [P,R,T], the last prompt first
      tokenStride = 1;
      rowStride = tokens;
      promptStride = -tokens * r;
      origin = tokens * r * (p - 1);
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
    return origin + p * promptStride + start + t * tokenStride;
  }
  CollapsarCudaTokens given() {
    CollapsarCudaTokens out{};
    out.size = sizeof out;
    out.dtype = static_cast<std::int32_t>(dtype);
    const auto size = static_cast<std::int64_t>(sizeOf(dtype));
    const char* data = static_cast<const char*>(std::as_const(*elements).data());
    if (!onHost) {
      memory = std::make_unique<DeviceMemory>(*device, data, std::max<std::int64_t>(count, 1) * size);
      data = memory->as<char>();
    }
    out.data = data + origin * size;
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
  // Rows after the first end here at the latest.
  void cutOthers(std::int64_t most) {
    for (std::int64_t r = 1; r < rows; r++) {
      std::int64_t& length = lengths[static_cast<std::size_t>(r)];
      for (; length > most; length--) {
        for (std::int64_t p = 0; p < prompts; p++) elements->set(at(p, r, length - 1), kNaN);
      }
    }
  }
  long double sum(std::int64_t p, std::int64_t r) const {
    long double total = 0;
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(r)]; t++) total += elements->get(at(p, r, t));
    return total;
  }

  DType dtype;
  std::int64_t prompts, rows;
  bool packed, onHost;
  std::int64_t origin = 0, promptStride = 0, rowStride = 0, tokenStride = 0, count = 0;
  std::vector<std::int64_t> lengths, offsets;
  std::unique_ptr<Elements> elements;
  std::unique_ptr<DeviceMemory> memory;
};

}  // namespace collapsar::test
