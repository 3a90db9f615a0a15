// The JS object behind an Engine (src/engine/engine.ts): one dispatcher with its threads, and a GPU if it has one.
#pragma once

#include <cstddef>
#include <memory>

#include "dispatcher.h"
#include "guard.h"
#include "job.h"
#include "napi_setup.h"
#include "node/arguments/arguments.h"
#include "node/gpu/device.h"

namespace collapsar {

// Every method that starts a job takes the function to settle it first, returns the job's number, and throws at once
// if an argument is bad.
class EngineObject : public GuardedObject<EngineObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EngineObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value start(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  Napi::Value openDevice(const Napi::CallbackInfo& info);
  // All others: the job that makeJob, a function of operations.h, makes of the arguments.
  template <auto makeJob>
  Napi::Value call(const Napi::CallbackInfo& info);

  template <typename MakeJob>
  Napi::Value submit(const Napi::CallbackInfo& info, MakeJob makeJob, bool last = false);

  std::shared_ptr<Device> device_;  // null until openDevice(); before dispatcher_, so that its thread ends first
  std::shared_ptr<Dispatcher> dispatcher_;
  std::size_t maxBufferBytes_ = 0;
};

}  // namespace collapsar
