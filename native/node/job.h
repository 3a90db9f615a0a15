// One asynchronous call from JavaScript: what it computes, the memory it works on, and the function that settles it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dispatcher.h"
#include "memory_block.h"
#include "napi_setup.h"
#include "node/gpu/device.h"

namespace collapsar {

// Lives from the call until it is settled. Made and destroyed on the JS thread, because it holds JS references;
// run() on the dispatcher's thread touches none of them.
class Job : public Task {
 public:
  Job();
  ~Job() override;

  // On the JS thread after run() ended well: the value that the promise is fulfilled with.
  virtual Napi::Value result(Napi::Env env) = 0;

  // Memory that this job reads or writes: engine memory by its block, SharedArrayBuffers and buffers that the caller
  // protects by a reference that keeps them from being collected.
  std::vector<std::shared_ptr<MemoryBlock>> blocks;
  std::vector<Napi::ObjectReference> buffers;

  // The GPU that it runs on; null: the CPU does.
  std::shared_ptr<Device> device;
  // Whether its tensor is in that GPU's memory, rather than in the host's.
  bool dataOnDevice = false;

  // (outcome: 0 done | 1 cancelled | 2 failed, value: result | undefined | message, argument: string,
  //  reason: string, askedBytes, freeBytes: number | undefined) => void
  Napi::FunctionReference settle;

  std::shared_ptr<Dispatcher> dispatcher;
  std::uint32_t id = 0;
  Job* nextEnded = nullptr;  // the environment's, of jobs that it has to settle

  static std::int64_t liveJobs();
};

}  // namespace collapsar
