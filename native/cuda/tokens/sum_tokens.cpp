// sumTokens on the device, and [P,R,T] -> row statistics whose sums [R,P] never leave it. Rows go in ranges of bounded
// workspace. Host tokens are sent packed, valid ones only, prompt by prompt.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/argument_checks.h"
#include "cuda/call.h"
#include "cuda/label_block.h"
#include "cuda/operations.h"
#include "cuda/portions.h"
#include "cuda/rows/pieces.h"
#include "cuda/scores/score_stats.h"
#include "token_sums.h"

namespace collapsar::cuda {

namespace {

constexpr unsigned long long kNoSuspect = ~0ull;

struct Invalid {
  std::int64_t prompt = -1, row = -1, token = -1;
};

class TokenSummer {
 public:
  TokenSummer(CollapsarCudaDevice& device, const CollapsarCudaTokens& tokens)
      : device_(device), tokens_(tokens), size_(elementBytes(tokens.dtype)) {}

  // Rows that go together: their sums, and from the host their tokens, fit the workspace.
  std::int64_t rangeFrom(std::int64_t first, bool sumsInWorkspace) const {
    std::int64_t rows = 0, bytes = 0;
    const std::int64_t mostRows =
        sumsInWorkspace ? std::max<std::int64_t>(1, kSumsBytes / (8 * std::max<std::int64_t>(1, tokens_.prompts)))
                        : kMostRows;
    while (first + rows < tokens_.rows && rows < std::min(mostRows, kMostRows)) {
      if (tokens_.data_on_device == 0) {
        bytes += paddedTokens(first + rows) * size_ * tokens_.prompts;
        if (rows > 0 && bytes > kTokenBytes) break;
      }
      rows++;
    }
    return rows;
  }

  std::int64_t tokensIn(std::int64_t first, std::int64_t count) const {
    std::int64_t sum = 0;
    for (std::int64_t row = first; row < first + count; row++) sum += tokens_.lengths[row];
    return sum * tokens_.prompts;
  }

  // Starts the sums of rows [first, first + count) into device memory. columnsAt: of column_of in the labels; -1: none.
  void startWith(Call& call, std::int64_t first, std::int64_t count, double* sums, std::int64_t sumsStride,
                 std::int64_t columnsAt) {
    job_ = {};
    std::vector<std::int64_t> starts(static_cast<std::size_t>(count));
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(count));
    const bool packs = tokens_.data_on_device == 0;
    std::int64_t packed = 0;
    for (std::int64_t i = 0; i < count; i++) {
      const std::int64_t row = first + i;
      lengths[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(tokens_.lengths[row]);
      starts[static_cast<std::size_t>(i)] = packs ? packed : startOf(row);
      packed += packs ? paddedTokens(row) : 0;
    }
    const std::int64_t startsAt = labels_.add(starts.data(), count), lengthsAt = labels_.add(lengths.data(), count);
    labels_.upload(device_);
    auto* const suspect =
        static_cast<unsigned long long*>(device_.space(Space::Scratch, kScratchBytes));  // never grows here
    check(cudaMemsetAsync(suspect, 0xff, sizeof *suspect, device_.stream()), "running kernels");

    job_.dtype = tokens_.dtype;
    job_.prompts = tokens_.prompts;
    job_.rows = static_cast<std::int32_t>(count);
    job_.starts = labels_.at<std::int64_t>(startsAt);
    job_.lengths = labels_.at<std::int32_t>(lengthsAt);
    job_.sums = sums;
    job_.sumsStride = sumsStride;
    job_.columnOf = columnsAt >= 0 ? labels_.at<std::int32_t>(columnsAt) : nullptr;
    job_.firstSuspect = suspect;
    job_.meanBytes =
        count > 0 ? tokensIn(first, count) / std::max<std::int64_t>(1, tokens_.prompts) / count * size_ : 0;
    if (packs) {
      job_.data = sendPacked(call, first, count, packed);
      job_.promptStride = packed;
      job_.tokenStride = 1;
      job_.rowsInside = 1;
    } else {
      job_.data = tokens_.data;
      job_.promptStride = tokens_.prompt_stride;
      job_.tokenStride = tokens_.token_stride;
      job_.rowsInside =
          tokens_.row_offsets != nullptr || magnitude(tokens_.row_stride) <= magnitude(tokens_.prompt_stride);
    }
    setReadable(starts, lengths);
    call.run([&] { check(launchTokenSums(job_, device_.multiprocessors(), device_.stream()), "running kernels"); });
  }

  // After startWith(): the first invalid token of those rows becomes `invalid` if it comes before what is there.
  void findInvalid(std::int64_t first, Invalid& invalid) {
    if (job_.prompts == 0 || job_.rows == 0) return;
    unsigned long long suspect = read(job_.firstSuspect);
    auto* const found = reinterpret_cast<std::int32_t*>(job_.firstSuspect + 1);
    // Mostly the first one looked at; further ones only if its sum had merely overflowed.
    while (suspect != kNoSuspect) {
      const std::int64_t prompt = static_cast<std::int64_t>(suspect) / job_.rows;
      const std::int64_t row = static_cast<std::int64_t>(suspect) % job_.rows;
      check(launchFirstInvalid(job_, prompt, static_cast<std::int32_t>(row), found, device_.stream()),
            "running kernels");
      const std::int32_t token = read(found);
      if (token < tokens_.lengths[first + row]) {
        const Invalid here{prompt, first + row, token};
        const bool before = invalid.prompt < 0 || here.prompt < invalid.prompt ||
                            (here.prompt == invalid.prompt && here.row < invalid.row);
        if (before) invalid = here;
        return;
      }
      check(cudaMemsetAsync(job_.firstSuspect, 0xff, sizeof suspect, device_.stream()), "running kernels");
      check(launchNextSuspect(job_, static_cast<std::int64_t>(suspect) + 1, device_.stream()), "running kernels");
      suspect = read(job_.firstSuspect);
    }
  }

  LabelBlock& labels() { return labels_; }
  void forgetLabels() { labels_ = {}; }

 private:
  static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  // The vectors that lie between valid tokens, from the rows' first tokens in a prompt and their lengths.
  void setReadable(const std::vector<std::int64_t>& starts, const std::vector<std::int32_t>& lengths) {
    std::int64_t begin = INT64_MAX, end = INT64_MIN;
    for (std::size_t i = 0; i < starts.size(); i++) {
      if (lengths[i] == 0) continue;
      begin = std::min(begin, starts[i]);
      end = std::max(end, starts[i] + lengths[i]);
    }
    if (begin > end || job_.prompts == 0) return;
    const std::int64_t lastPrompt = (job_.prompts - 1) * job_.promptStride;
    begin += std::min<std::int64_t>(0, lastPrompt);
    end += std::max<std::int64_t>(0, lastPrompt);
    const auto at = reinterpret_cast<std::uintptr_t>(job_.data);
    job_.firstReadable =
        reinterpret_cast<const Vector*>((at + static_cast<std::uintptr_t>(begin * size_) + 15) / 16 * 16);
    job_.endReadable = reinterpret_cast<const Vector*>((at + static_cast<std::uintptr_t>(end * size_)) / 16 * 16);
  }

  // In elements from a prompt's first.
  std::int64_t startOf(std::int64_t row) const {
    return tokens_.row_offsets != nullptr ? tokens_.row_offsets[row] * tokens_.token_stride : row * tokens_.row_stride;
  }
  // Rows start at a multiple of 16 bytes.
  std::int64_t paddedTokens(std::int64_t row) const { return (tokens_.lengths[row] * size_ + 15) / 16 * 16 / size_; }

  template <class V>
  V read(const V* from) {
    V value;
    device_.download(&value, from, sizeof value, device_.stream());
    return value;
  }

  const void* sendPacked(Call& call, std::int64_t first, std::int64_t count, std::int64_t packed) {
    device_.synchronize();  // kernels may still read what was sent before
    const std::int64_t bytes = packed * tokens_.prompts * size_;
    char* const memory = static_cast<char*>(device_.space(Space::InputA, bytes));
    std::int64_t prompt = 0, row = first, token = 0;  // where the next element comes from
    device_.uploadFilled(memory, bytes, 16, device_.stream(), [&](char* to, std::int64_t, std::int64_t bytesHere) {
      call.stopIfCancelled();
      std::int64_t left = bytesHere / size_;
      while (left > 0) {
        const std::int64_t many = std::min(left, paddedTokens(row) - token);
        const std::int64_t valid = std::min(many, std::max<std::int64_t>(0, tokens_.lengths[row] - token));
        copyTokens(prompt, row, token, valid, to);
        std::memset(to + valid * size_, 0, static_cast<std::size_t>((many - valid) * size_));
        to += many * size_;
        left -= many;
        token += many;
        if (token < paddedTokens(row)) continue;
        token = 0;
        if (++row == first + count) {
          row = first;
          prompt++;
        }
      }
    });
    return memory;
  }

  void copyTokens(std::int64_t prompt, std::int64_t row, std::int64_t token, std::int64_t count, char* to) const {
    const char* const from = static_cast<const char*>(tokens_.data) +
                             (prompt * tokens_.prompt_stride + startOf(row) + token * tokens_.token_stride) * size_;
    if (tokens_.token_stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count * size_));
      return;
    }
    for (std::int64_t i = 0; i < count; i++) {
      std::memcpy(to + i * size_, from + i * tokens_.token_stride * size_, static_cast<std::size_t>(size_));
    }
  }

  CollapsarCudaDevice& device_;
  const CollapsarCudaTokens& tokens_;
  std::int64_t size_;
  LabelBlock labels_;
  TokenSumsJob job_{};
};

std::int64_t expectTokens(const CollapsarCudaTokens& tokens) {
  expectVersion(tokens, "tokens");
  const std::int64_t size = elementBytes(tokens.dtype);
  expect(tokens.prompts >= 0 && tokens.prompts <= INT32_MAX && tokens.rows >= 0,
         "tokens: prompts or rows out of range");
  expect(tokens.rows == 0 || tokens.lengths != nullptr, "lengths: null");
  std::int64_t sum = 0;
  for (std::int64_t row = 0; row < tokens.rows; row++) {
    expect(tokens.lengths[row] >= 0 && tokens.lengths[row] <= INT32_MAX - 64,
           "lengths: an entry is negative, or more than a GPU's row can have (2147483583)");
    sum += tokens.lengths[row];
  }
  expect(sum == 0 || tokens.prompts == 0 || tokens.data != nullptr, "tokens.data: null");
  if (tokens.data_on_device != 0) expectAligned(tokens.data, size);
  return sum * tokens.prompts;
}

void expectSums(const CollapsarCudaTokens& tokens, const CollapsarCudaTokenSums& out) {
  expectVersion(out, "out");
  if (tokens.rows == 0 || tokens.prompts == 0) return;
  expect(out.sums != nullptr, "sums: null");
  expect(out.columns >= (out.column_of != nullptr ? 1 : tokens.prompts), "columns: fewer than prompts");
  for (std::int64_t prompt = 0; out.column_of != nullptr && prompt < tokens.prompts; prompt++) {
    expect(out.column_of[prompt] >= 0 && out.column_of[prompt] < out.columns, "column_of: an entry is not a column");
  }
}

void setInvalid(CollapsarCudaTokenSums& out, const Invalid& invalid) {
  out.invalid_prompt = invalid.prompt;
  out.invalid_row = invalid.row;
  out.invalid_token = invalid.token;
}

// Dense sums [count, prompts] of the device -> their places in the caller's host memory.
void fetchSums(CollapsarCudaDevice& device, const double* from, std::int64_t first, std::int64_t count,
               std::int64_t prompts, const CollapsarCudaTokenSums& out) {
  const std::int64_t bytes = count * prompts * static_cast<std::int64_t>(sizeof(double));
  if (out.column_of == nullptr && out.columns == prompts) {
    device.download(out.sums + first * prompts, from, bytes, device.stream());
    return;
  }
  std::vector<double> dense(static_cast<std::size_t>(count * prompts));
  device.download(dense.data(), from, bytes, device.stream());
  for (std::int64_t row = 0; row < count; row++) {
    for (std::int64_t prompt = 0; prompt < prompts; prompt++) {
      const std::int64_t column = out.column_of != nullptr ? out.column_of[prompt] : prompt;
      out.sums[(first + row) * out.columns + column] = dense[static_cast<std::size_t>(row * prompts + prompt)];
    }
  }
}

double* sumsSpace(CollapsarCudaDevice& device, std::int64_t rows, std::int64_t prompts) {
  return static_cast<double*>(device.space(Space::Sums, rows * prompts * static_cast<std::int64_t>(sizeof(double))));
}

}  // namespace

void sumTokens(CollapsarCudaDevice& device, const CollapsarCudaTokens& tokens, CollapsarCudaTokenSums& out,
               const CollapsarCudaControl* control) {
  const std::int64_t total = expectTokens(tokens);
  expectSums(tokens, out);
  Call call(device, control, total);
  Invalid invalid;
  TokenSummer summer(device, tokens);
  const bool stays = out.on_device != 0;
  for (std::int64_t first = 0, count = 0; first < tokens.rows && tokens.prompts > 0; first += count) {
    call.stopIfCancelled();
    count = summer.rangeFrom(first, !stays);
    summer.forgetLabels();
    const std::int64_t columnsAt =
        stays && out.column_of != nullptr ? summer.labels().add(out.column_of, tokens.prompts) : -1;
    double* const sums = stays ? out.sums + first * out.columns : sumsSpace(device, count, tokens.prompts);
    summer.startWith(call, first, count, sums, stays ? out.columns : tokens.prompts, columnsAt);
    if (!stays) fetchSums(device, sums, first, count, tokens.prompts, out);
    summer.findInvalid(first, invalid);
    call.addDone(summer.tokensIn(first, count));
  }
  call.finish();
  setInvalid(out, invalid);
}

void tokensToRowStats(CollapsarCudaDevice& device, const CollapsarCudaTokens& tokens,
                      const CollapsarCudaRowLabels& labels, const CollapsarCudaRowStats& out,
                      CollapsarCudaTokenSums* sums, const CollapsarCudaControl* control) {
  const std::int64_t total = expectTokens(tokens);
  expectVersion(labels, "labels");
  expectVersion(out, "out");
  CollapsarCudaRowLabels whole = labels;
  if (whole.lengths == nullptr) whole.lengths = tokens.lengths;
  expectRowStats(whole, out, tokens.rows, tokens.prompts);
  if (sums != nullptr) {
    expectSums(tokens, *sums);
    expect(sums->column_of == nullptr && (tokens.rows == 0 || sums->columns == tokens.prompts),
           "sums: this road gives one column a prompt, in their order");
  }
  Call call(device, control, total);
  Invalid invalid;
  if (tokens.prompts > 0) {
    const EquivalentColumns equivalent(device, labels.signature, tokens.prompts);
    TokenSummer summer(device, tokens);
    RowStatsFields fields(out);
    const bool stays = sums != nullptr && sums->on_device != 0;
    for (std::int64_t first = 0, count = 0; first < tokens.rows; first += count) {
      call.stopIfCancelled();
      count = summer.rangeFrom(first, !stays);
      summer.forgetLabels();
      const std::int64_t ownAt = summer.labels().add(whole.own + first, count);
      const std::int64_t lengthsAt = summer.labels().add(whole.lengths + first, count);
      double* const place = stays ? sums->sums + first * tokens.prompts : sumsSpace(device, count, tokens.prompts);
      ScoreRowsJob job{};
      job.out = fields.place(device, first, count);
      summer.startWith(call, first, count, place, tokens.prompts, -1);
      job.data = place;
      job.dtype = COLLAPSAR_CUDA_FLOAT64;
      job.rowStride = tokens.prompts;
      job.columns = static_cast<std::int32_t>(tokens.prompts);
      job.own = summer.labels().at<std::int32_t>(ownAt);
      job.lengths = summer.labels().at<std::int64_t>(lengthsAt);
      job.equivalent = equivalent.columns();
      call.run([&] { startScoreRows(device, job, count); });
      fields.fetch(device);
      if (sums != nullptr) {
        if (!stays) fetchSums(device, place, first, count, tokens.prompts, *sums);
        summer.findInvalid(first, invalid);
      }
      call.addDone(summer.tokensIn(first, count));
    }
  }
  call.finish();
  if (sums != nullptr) setInvalid(*sums, invalid);
}

}  // namespace collapsar::cuda
