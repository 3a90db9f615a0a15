#include "device.h"

#include <atomic>
#include <utility>

#include "torch_ref_counter.h"

namespace collapsar {
namespace {

std::atomic<std::uint32_t> lastNumber{0};

CollapsarCudaTokens tokensOf(const TokenScores& scores, bool onDevice) {
  CollapsarCudaTokens tokens = sized<CollapsarCudaTokens>();
  tokens.dtype = static_cast<std::int32_t>(scores.dtype);
  tokens.data = scores.data;
  tokens.data_on_device = onDevice ? 1 : 0;
  tokens.prompts = scores.prompts;
  tokens.rows = scores.rows;
  tokens.prompt_stride = scores.promptStride;
  tokens.row_stride = scores.rowStride;
  tokens.token_stride = scores.tokenStride;
  tokens.lengths = scores.lengths;
  tokens.row_offsets = scores.rowOffsets;
  return tokens;
}

CollapsarCudaRowLabels labelsOf(const ScoreRows& rows) {
  CollapsarCudaRowLabels labels = sized<CollapsarCudaRowLabels>();
  labels.own = rows.own;
  labels.lengths = rows.lengths;
  labels.signature = rows.signature;
  return labels;
}

CollapsarCudaRowStats rowStatsOf(const RowStats& out, bool onDevice) {
  CollapsarCudaRowStats stats = sized<CollapsarCudaRowStats>();
  stats.on_device = onDevice ? 1 : 0;
  stats.matched_seq = out.matchedSeq;
  stats.matched_token = out.matchedToken;
  stats.marginal_seq = out.marginalSeq;
  stats.marginal_token = out.marginalToken;
  stats.loo_marginal_seq = out.looMarginalSeq;
  stats.loo_marginal_token = out.looMarginalToken;
  stats.posterior_entropy = out.posteriorEntropy;
  stats.argmax = out.argmax;
  stats.rank_above = out.rankAbove;
  stats.rank_equal = out.rankEqual;
  stats.hit_rank = out.hitRank;
  stats.top_columns = out.topColumns;
  stats.top_k = out.topK;
  return stats;
}

InvalidToken invalidOf(const CollapsarCudaTokenSums& sums) {
  return {sums.invalid_prompt, sums.invalid_row, sums.invalid_token};
}

}  // namespace

Device::Device(std::string path, int index, bool takesHostTensors)
    : path_(std::move(path)), index_(index), takesHostTensors_(takesHostTensors) {}

Device::~Device() { close(); }

bool Device::find(std::uint32_t number, DeviceMemory* memory) const {
  const std::lock_guard lock(mutex_);
  const auto entry = memory_.find(number);
  if (entry == memory_.end()) return false;
  *memory = entry->second;
  return true;
}

void Device::open() {
  if (device_ != nullptr) return;
  backend_ = &loadCudaBackend(path_);
  CollapsarCudaDevice* opened = nullptr;
  expectOk(backend_->open(index_, &opened, &error_), error_);
  device_ = opened;
}

CollapsarCudaDevice* Device::opened() {
  if (device_ == nullptr) throw DeviceProblem{"failed", "the GPU is not open"};
  return device_;
}

CollapsarCudaDeviceInfo Device::info() {
  opened();
  CollapsarCudaDeviceInfo info = sized<CollapsarCudaDeviceInfo>();
  expectOk(backend_->device_info(index_, &info, &error_), error_);
  return info;
}

void Device::memoryInfo(std::int64_t* freeBytes, std::int64_t* totalBytes) {
  expectOk(backend_->memory_info(opened(), freeBytes, totalBytes, &error_), error_);
}

std::uint32_t Device::keep(const DeviceMemory& memory) {
  const std::uint32_t number = ++lastNumber;
  const std::lock_guard lock(mutex_);
  memory_.emplace(number, memory);
  return number;
}

std::uint32_t Device::allocate(std::int64_t bytes) {
  DeviceMemory memory;
  memory.bytes = bytes;
  expectOk(backend_->alloc(opened(), bytes, &memory.pointer, &error_), error_);
  return keep(memory);
}

void Device::free(std::uint32_t number) {
  DeviceMemory memory;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = memory_.find(number);
    if (entry == memory_.end()) return;
    memory = std::move(entry->second);
    memory_.erase(entry);
  }
  release(memory);
}

void Device::release(const DeviceMemory& memory) {
  // A lost device has lost its memory, too: what free says then is of no use to anybody.
  if (memory.imported != nullptr) {
    backend_->ipc_close(device_, memory.imported, &error_);
  } else {
    backend_->free(device_, memory.pointer, &error_);
  }
  if (!memory.counterName.empty()) lowerTorchRefCounter(memory.counterName, memory.counterIndex);
}

Outcome Device::upload(void* to, const void* from, std::int64_t bytes, Task& task) {
  const CollapsarCudaControl control = controlOf(task);
  return outcomeOf(backend_->upload(opened(), to, from, bytes, &control, &error_), error_);
}

Outcome Device::download(void* to, const void* from, std::int64_t bytes, Task& task) {
  const CollapsarCudaControl control = controlOf(task);
  return outcomeOf(backend_->download(opened(), to, from, bytes, &control, &error_), error_);
}

std::uint32_t Device::import(const void* handle, std::int64_t offset, const void* event, DeviceMemory wanted) {
  CollapsarCudaIpcImport import = sized<CollapsarCudaIpcImport>();
  import.handle_bytes = COLLAPSAR_CUDA_HANDLE_BYTES;
  import.handle = handle;
  import.offset_bytes = offset;
  import.bytes = wanted.bytes;
  import.event_handle = event;
  expectOk(backend_->ipc_import(opened(), &import, &error_), error_);
  wanted.pointer = import.pointer;
  wanted.imported = import.base;
  return keep(wanted);
}

CollapsarCudaIpcExport Device::share(const void* pointer) {
  CollapsarCudaIpcExport out = sized<CollapsarCudaIpcExport>();
  out.pointer = pointer;
  expectOk(backend_->ipc_export(opened(), &out, &error_), error_);
  return out;
}

void Device::endShare(void* event) { backend_->ipc_export_end(opened(), event); }

void Device::close() {
  if (device_ == nullptr) return;
  std::map<std::uint32_t, DeviceMemory> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(memory_);
  }
  for (const auto& [number, memory] : left) release(memory);
  backend_->close(std::exchange(device_, nullptr));
}

Outcome Device::logitStats(const LogitMatrix& logits, bool onDevice, const LogitRows& rows, const LogitStats& out,
                           bool outOnDevice, const LogitSequences& sequences, Task& task) {
  CollapsarCudaLogits input = sized<CollapsarCudaLogits>();
  input.dtype = static_cast<std::int32_t>(logits.dtype);
  input.data = logits.data;
  input.data_on_device = onDevice ? 1 : 0;
  input.rows = logits.rows;
  input.columns = logits.columns;
  input.row_stride = logits.rowStride;
  input.column_stride = logits.columnStride;
  input.targets = rows.targets;
  input.mask = rows.mask;
  input.temperature = rows.temperature;
  input.sequences = sequences.count;
  input.begins = sequences.begins;
  input.ends = sequences.ends;
  CollapsarCudaLogitStats stats = sized<CollapsarCudaLogitStats>();
  stats.on_device = outOnDevice ? 1 : 0;
  stats.logsumexp = out.logsumexp;
  stats.entropy = out.entropy;
  stats.target_logprob = out.targetLogprob;
  stats.argmax = out.argmax;
  stats.rank_above = out.rankAbove;
  stats.rank_equal = out.rankEqual;
  stats.mean_entropy = sequences.meanEntropy;
  stats.mean_target_logprob = sequences.meanTargetLogprob;
  const CollapsarCudaControl control = controlOf(task);
  return outcomeOf(backend_->logit_stats(opened(), &input, &stats, &control, &error_), error_);
}

Outcome Device::scoreStats(const ScoreMatrix& scores, bool onDevice, const ScoreRows& rows, const RowStats& out,
                           bool outOnDevice, Task& task) {
  CollapsarCudaScores input = sized<CollapsarCudaScores>();
  input.dtype = static_cast<std::int32_t>(scores.dtype);
  input.data = scores.data;
  input.data_on_device = onDevice ? 1 : 0;
  input.rows = scores.rows;
  input.columns = scores.columns;
  input.row_stride = scores.rowStride;
  input.column_stride = scores.columnStride;
  const CollapsarCudaRowLabels labels = labelsOf(rows);
  const CollapsarCudaRowStats stats = rowStatsOf(out, outOnDevice);
  const CollapsarCudaControl control = controlOf(task);
  return outcomeOf(backend_->score_stats(opened(), &input, &labels, &stats, &control, &error_), error_);
}

Outcome Device::sumTokens(const TokenScores& scores, bool onDevice, const TokenSums& out, bool outOnDevice,
                          InvalidToken* firstInvalid, Task& task) {
  const CollapsarCudaTokens tokens = tokensOf(scores, onDevice);
  CollapsarCudaTokenSums sums = sized<CollapsarCudaTokenSums>();
  sums.on_device = outOnDevice ? 1 : 0;
  sums.sums = out.sums;
  sums.columns = out.columns;
  sums.column_of = out.columnOf;
  const CollapsarCudaControl control = controlOf(task);
  const Outcome outcome = outcomeOf(backend_->sum_tokens(opened(), &tokens, &sums, &control, &error_), error_);
  *firstInvalid = invalidOf(sums);
  return outcome;
}

Outcome Device::tokensToRowStats(const TokenScores& scores, bool onDevice, const ScoreRows& rows, const RowStats& out,
                                 bool outOnDevice, double* sums, InvalidToken* firstInvalid, Task& task) {
  const CollapsarCudaTokens tokens = tokensOf(scores, onDevice);
  const CollapsarCudaRowLabels labels = labelsOf(rows);
  const CollapsarCudaRowStats stats = rowStatsOf(out, outOnDevice);
  CollapsarCudaTokenSums tokenSums = sized<CollapsarCudaTokenSums>();
  tokenSums.on_device = outOnDevice ? 1 : 0;
  tokenSums.sums = sums;
  tokenSums.columns = scores.prompts;
  const CollapsarCudaControl control = controlOf(task);
  const Outcome outcome =
      outcomeOf(backend_->tokens_to_row_stats(opened(), &tokens, &labels, &stats,
                                              sums == nullptr ? nullptr : &tokenSums, &control, &error_),
                error_);
  if (sums != nullptr) *firstInvalid = invalidOf(tokenSums);
  return outcome;
}

}  // namespace collapsar
