// The parts of scoreStats that the fused road from tokens shares.
#pragma once

#include "cuda/device.h"
#include "cuda/result_block.h"
#include "score_rows.h"

namespace collapsar::cuda {

constexpr std::int64_t kScratchBytes = 256;  // of Space::Scratch, at its start: counters
constexpr int kWholeBlockLanes = 256;

// Which columns are equivalent, on the device (in Space::Scratch).
class EquivalentColumns {
 public:
  EquivalentColumns(CollapsarCudaDevice& device, const std::int32_t* signature, std::int64_t columns);
  const SignatureColumns& columns() const { return columns_; }

 private:
  SignatureColumns columns_{};
};

// The caller's fields, a range of rows at a time.
class RowStatsFields {
 public:
  explicit RowStatsFields(const CollapsarCudaRowStats& out);
  ScoreOutputs place(CollapsarCudaDevice& device, std::int64_t first, std::int64_t count);
  void fetch(CollapsarCudaDevice& device) { results_.download(device); }

 private:
  const CollapsarCudaRowStats& out_;
  ResultBlock results_;
};

// Cuts `rows` rows and starts the kernels on them; the job's own lanes, cut and pieces are set here.
void startScoreRows(CollapsarCudaDevice& device, ScoreRowsJob job, std::int64_t rows);

}  // namespace collapsar::cuda
