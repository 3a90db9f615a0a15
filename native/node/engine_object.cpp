#include "engine_object.h"

#include <exception>
#include <system_error>
#include <utility>

#include "environment.h"
#include "memory_shortage.h"
#include "operations.h"

namespace collapsar {
namespace {

class EmptyJob : public Job {
 public:
  Outcome run(ThreadPool&) override { return Outcome::Done; }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }
};

}  // namespace

std::unique_ptr<Job> emptyJob() { return std::make_unique<EmptyJob>(); }

Napi::Function EngineObject::define(Napi::Env env) {
  return DefineClass(env, "NativeEngine",
                     {InstanceMethod<&EngineObject::start>("start"),
                      InstanceMethod<&EngineObject::close>("close"),
                      InstanceMethod<&EngineObject::openDevice>("openDevice"),
                      InstanceMethod<&EngineObject::closeDevice>("closeDevice"),
                      InstanceMethod<&EngineObject::deviceMemory>("deviceMemory"),
                      InstanceMethod<&EngineObject::allocDevice>("allocDevice"),
                      InstanceMethod<&EngineObject::uploadDevice>("uploadDevice"),
                      InstanceMethod<&EngineObject::downloadDevice>("downloadDevice"),
                      InstanceMethod<&EngineObject::freeDevice>("freeDevice"),
                      InstanceMethod<&EngineObject::importDevice>("importDevice"),
                      InstanceMethod<&EngineObject::shareDevice>("shareDevice"),
                      InstanceMethod<&EngineObject::readBytes>("readBytes"),
                      InstanceMethod<&EngineObject::readFile>("readFile"),
                      InstanceMethod<&EngineObject::touchLines>("touchLines"),
                      InstanceMethod<&EngineObject::multiplyAdds>("multiplyAdds"),
                      InstanceMethod<&EngineObject::sumFileTokens>("sumFileTokens"),
                      InstanceMethod<&EngineObject::sumTokens>("sumTokens"),
                      InstanceMethod<&EngineObject::scoreStats>("scoreStats"),
                      InstanceMethod<&EngineObject::logitStats>("logitStats"),
                      InstanceMethod<&EngineObject::tokenRowStats>("tokenRowStats"),
                      InstanceMethod<&EngineObject::gatherScores>("gatherScores"),
                      InstanceMethod<&EngineObject::stepMoments>("stepMoments"),
                      InstanceMethod<&EngineObject::inferStep>("inferStep")});
}

// new NativeEngine(threads: number, maxBufferBytes: number)    the largest ArrayBuffer that this Node can wrap
EngineObject::EngineObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EngineObject>(info) {
  Arguments arguments(info);
  const int threads = static_cast<int>(arguments.integer());
  maxBufferBytes_ = static_cast<std::size_t>(arguments.integer());
  try {
    dispatcher_ = Environment::of(info.Env()).openDispatcher(threads);
  } catch (const std::system_error& error) {
    throw Napi::Error::New(info.Env(), std::string("cannot start a thread: ") + error.what());
  }
}

template <typename MakeJob>
Napi::Value EngineObject::submit(const Napi::CallbackInfo& info, MakeJob makeJob, bool last) {
  const Napi::Env env = info.Env();
  if (dispatcher_ == nullptr) throw Napi::Error::New(env, "the engine was closed");
  try {
    Arguments arguments(info, device_);
    const Napi::Value settle = arguments.next();
    std::unique_ptr<Job> job = makeJob(arguments);
    job->settle = Napi::Persistent(settle.As<Napi::Function>());
    job->dispatcher = dispatcher_;
    const std::uint32_t id = Environment::of(env).submit(std::move(job), last);
    return Napi::Number::New(env, id);
  } catch (const std::bad_alloc& shortage) {
    Napi::Error error = Napi::Error::New(env, wordsOf(shortage));
    error.Set("reason", Napi::String::New(env, kNoMemory));
    if (const std::size_t asked = askedBytes(shortage); asked > 0)
      error.Set("askedBytes", Napi::Number::New(env, static_cast<double>(asked)));
    throw error;
  }
}

// start(settle): number    an empty job: settles once the threads run, or fails with the reason
Napi::Value EngineObject::start(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments&) { return emptyJob(); });
}

// close(settle): number    settles after all other jobs, when the threads are gone; no job can be started after this
Napi::Value EngineObject::close(const Napi::CallbackInfo& info) {
  const Napi::Value id = submit(
      info, [](Arguments&) { return emptyJob(); }, true);
  dispatcher_.reset();
  return id;
}

Napi::Value EngineObject::openDevice(const Napi::CallbackInfo& info) {
  if (device_ == nullptr) {
    Arguments arguments(info);
    arguments.next();
    const std::string path = arguments.next().As<Napi::String>();
    const int index = static_cast<int>(arguments.integer());
    device_ = std::make_shared<Device>(path, index, arguments.flag());
  }
  return submit(info, [](Arguments& arguments) { return openDeviceJob(arguments); });
}

Napi::Value EngineObject::closeDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return closeDeviceJob(arguments); });
}

Napi::Value EngineObject::deviceMemory(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return deviceMemoryJob(arguments); });
}

Napi::Value EngineObject::allocDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return allocDeviceJob(arguments); });
}

Napi::Value EngineObject::uploadDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return uploadDeviceJob(arguments); });
}

Napi::Value EngineObject::downloadDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return downloadDeviceJob(arguments); });
}

Napi::Value EngineObject::freeDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return freeDeviceJob(arguments); });
}

Napi::Value EngineObject::importDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return importDeviceJob(arguments); });
}

Napi::Value EngineObject::shareDevice(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return shareDeviceJob(arguments); });
}

Napi::Value EngineObject::readBytes(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return readBytesJob(arguments); });
}

Napi::Value EngineObject::readFile(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return readFileJob(arguments); });
}

Napi::Value EngineObject::touchLines(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return touchLinesJob(arguments); });
}

Napi::Value EngineObject::multiplyAdds(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return multiplyAddsJob(arguments); });
}

Napi::Value EngineObject::sumFileTokens(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return sumFileTokensJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::sumTokens(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return sumTokensJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::logitStats(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return logitStatsJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::scoreStats(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return scoreStatsJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::tokenRowStats(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return tokenRowStatsJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::gatherScores(const Napi::CallbackInfo& info) {
  return submit(info, [this](Arguments& arguments) { return gatherScoresJob(arguments, maxBufferBytes_); });
}

Napi::Value EngineObject::stepMoments(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return stepMomentsJob(arguments); });
}

Napi::Value EngineObject::inferStep(const Napi::CallbackInfo& info) {
  return submit(info, [](Arguments& arguments) { return inferStepJob(arguments); });
}

}  // namespace collapsar
