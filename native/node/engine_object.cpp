#include "engine_object.h"

#include <system_error>
#include <type_traits>
#include <utility>

#include "environment.h"
#include "memory_shortage.h"
#include "node/jobs/operations.h"
#include "node/results/result_value.h"

namespace collapsar {
namespace {

class EmptyJob : public Job {
 public:
  Outcome run(ThreadPool&) override { return Outcome::Done; }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }
};

// Nothing: its end says that the engine's threads have started, or how they failed to.
std::unique_ptr<Job> emptyJob() { return std::make_unique<EmptyJob>(); }

}  // namespace

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
      error.Set("askedBytes", numberOf(env, static_cast<std::int64_t>(asked)));
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

template <auto makeJob>
Napi::Value EngineObject::call(const Napi::CallbackInfo& info) {
  return submit(info, [&](Arguments& arguments) {
    if constexpr (std::is_invocable_v<decltype(makeJob), Arguments&>) {
      return makeJob(arguments);
    } else {
      return makeJob(arguments, maxBufferBytes_);
    }
  });
}

Napi::Function EngineObject::define(Napi::Env env) {
  return DefineClass(env, "NativeEngine",
                     {InstanceMethod<&EngineObject::start>("start"),
                      InstanceMethod<&EngineObject::close>("close"),
                      InstanceMethod<&EngineObject::openDevice>("openDevice"),
                      InstanceMethod<&EngineObject::call<closeDeviceJob>>("closeDevice"),
                      InstanceMethod<&EngineObject::call<deviceMemoryJob>>("deviceMemory"),
                      InstanceMethod<&EngineObject::call<allocDeviceJob>>("allocDevice"),
                      InstanceMethod<&EngineObject::call<uploadDeviceJob>>("uploadDevice"),
                      InstanceMethod<&EngineObject::call<downloadDeviceJob>>("downloadDevice"),
                      InstanceMethod<&EngineObject::call<freeDeviceJob>>("freeDevice"),
                      InstanceMethod<&EngineObject::call<importDeviceJob>>("importDevice"),
                      InstanceMethod<&EngineObject::call<shareDeviceJob>>("shareDevice"),
                      InstanceMethod<&EngineObject::call<readBytesJob>>("readBytes"),
                      InstanceMethod<&EngineObject::call<readFileJob>>("readFile"),
                      InstanceMethod<&EngineObject::call<touchLinesJob>>("touchLines"),
                      InstanceMethod<&EngineObject::call<multiplyAddsJob>>("multiplyAdds"),
                      InstanceMethod<&EngineObject::call<sumFileTokensJob>>("sumFileTokens"),
                      InstanceMethod<&EngineObject::call<sumTokensJob>>("sumTokens"),
                      InstanceMethod<&EngineObject::call<scoreStatsJob>>("scoreStats"),
                      InstanceMethod<&EngineObject::call<logitStatsJob>>("logitStats"),
                      InstanceMethod<&EngineObject::call<tokenRowStatsJob>>("tokenRowStats"),
                      InstanceMethod<&EngineObject::call<gatherScoresJob>>("gatherScores"),
                      InstanceMethod<&EngineObject::call<takeTokensJob>>("takeTokens"),
                      InstanceMethod<&EngineObject::call<takeSumsJob>>("takeSums"),
                      InstanceMethod<&EngineObject::call<stepMomentsJob>>("stepMoments"),
                      InstanceMethod<&EngineObject::call<inferStepJob>>("inferStep"),
                      InstanceMethod<&EngineObject::call<textFiguresJob>>("textFigures"),
                      InstanceMethod<&EngineObject::call<phraseSharesJob>>("phraseShares")});
}

}  // namespace collapsar
