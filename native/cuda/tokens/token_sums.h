// What the kernels of sumTokens are given, and how they are started. Strides in elements.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace collapsar::cuda {

struct Vector;

struct TokenSumsJob {
  const void* data;
  int32_t dtype;
  int64_t prompts;
  int32_t rows;
  int64_t promptStride, tokenStride;
  const int64_t* starts;   // [rows]: of row r's first token in its prompt, in elements
  const int32_t* lengths;  // [rows]
  // The aligned 16-byte vectors between the lowest and the highest address of a valid token, which may be read whole.
  const Vector *firstReadable, *endReadable;
  double* sums;  // (p, r) at sums[r * sumsStride + (columnOf ? columnOf[p] : p)]
  int64_t sumsStride;
  const int32_t* columnOf;           // [prompts] or null
  unsigned long long* firstSuspect;  // lowest p * rows + r whose sum is NaN or +inf; only ever lowered
  int64_t meanBytes;                 // of a segment: how many lanes share one
  int32_t rowsInside;                // rows are nearer to each other than prompts: neighbouring threads take rows
};

cudaError_t launchTokenSums(const TokenSumsJob& job, int multiprocessors, cudaStream_t stream);

// *found: the first token of one segment that is NaN or +inf; its length if there is none.
cudaError_t launchFirstInvalid(const TokenSumsJob& job, int64_t prompt, int32_t row, int32_t* found,
                               cudaStream_t stream);

// Lowers *job.firstSuspect to the first segment from `from` on with a suspicious sum.
cudaError_t launchNextSuspect(const TokenSumsJob& job, int64_t from, cudaStream_t stream);

}  // namespace collapsar::cuda
