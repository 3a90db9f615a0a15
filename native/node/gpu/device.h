// One GPU as one engine uses it: opened when it is first needed, its allocations by number, and the operations on it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "cuda_backend.h"
#include "engine/logit_stats.h"
#include "engine/score_stats.h"
#include "engine/tokens/sum_tokens.h"

namespace collapsar {

// A piece of the GPU's memory. JavaScript knows it by its number, which is never given twice in a process, so that a
// number that outlives its memory, or is used with another engine, is found out.
struct DeviceMemory {
  void* pointer = nullptr;
  std::int64_t bytes = 0;
  void* imported = nullptr;  // not null: another process's, and what ipc_close wants
  std::string counterName;   // of PyTorch, lowered when it is freed; empty: none
  std::int64_t counterIndex = 0;
};

// Rules: the backend is called on the dispatcher's thread only, or by the destructor when no job is left. Memory is
// freed by a job, queued after all that may use it.
class Device {
 public:
  // Loads and opens nothing yet.
  Device(std::string path, int index, bool takesHostTensors);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Any thread. Whether operations on host tensors run here, too.
  bool takesHostTensors() const { return takesHostTensors_; }
  // Any thread; null pointer and 0 bytes are found like any other. False: no memory of this device has the number.
  bool find(std::uint32_t number, DeviceMemory* memory) const;

  // The dispatcher's thread from here on. They throw DeviceProblem.
  void open();
  CollapsarCudaDeviceInfo info();
  void memoryInfo(std::int64_t* freeBytes, std::int64_t* totalBytes);
  std::uint32_t allocate(std::int64_t bytes);
  void free(std::uint32_t number);  // no effect if there is none
  Outcome upload(void* to, const void* from, std::int64_t bytes, Task& task);
  Outcome download(void* to, const void* from, std::int64_t bytes, Task& task);
  // The handle of 64 bytes; event: 64 bytes or null.
  std::uint32_t import(const void* handle, std::int64_t offset, const void* event, DeviceMemory wanted);
  CollapsarCudaIpcExport share(const void* pointer);
  void endShare(void* event);
  // Frees all that is left.
  void close();

  // As the functions of native/engine, for input on this device or on the host. outOnDevice: `out` is memory of this
  // device, too; means of sequences are the host's always.
  Outcome logitStats(const LogitMatrix& logits, bool onDevice, const LogitRows& rows, const LogitStats& out,
                     bool outOnDevice, const LogitSequences& sequences, Task& task);
  Outcome scoreStats(const ScoreMatrix& scores, bool onDevice, const ScoreRows& rows, const RowStats& out,
                     bool outOnDevice, Task& task);
  Outcome sumTokens(const TokenScores& scores, bool onDevice, const TokenSums& out, bool outOnDevice,
                    InvalidToken* firstInvalid, Task& task);
  // sums may be null: they are then not given out, and firstInvalid is not set. Else they are where `out` is.
  Outcome tokensToRowStats(const TokenScores& scores, bool onDevice, const ScoreRows& rows, const RowStats& out,
                           bool outOnDevice, double* sums, InvalidToken* firstInvalid, Task& task);

 private:
  CollapsarCudaDevice* opened();
  std::uint32_t keep(const DeviceMemory& memory);
  void release(const DeviceMemory& memory);

  const std::string path_;
  const int index_;
  const bool takesHostTensors_;
  const CollapsarCudaBackend* backend_ = nullptr;
  CollapsarCudaDevice* device_ = nullptr;
  CollapsarCudaError error_{};

  mutable std::mutex mutex_;  // of memory_, which the JS thread looks at
  std::map<std::uint32_t, DeviceMemory> memory_;
};

}  // namespace collapsar
