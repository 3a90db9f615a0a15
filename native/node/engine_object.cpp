#include "engine_object.h"

#include <system_error>
#include <type_traits>
#include <utility>

#include "environment.h"
#include "guard.h"
#include "node/jobs/operations.h"

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
EngineObject::EngineObject(const Napi::CallbackInfo& info) : GuardedObject(info) {
  guarded(info.Env(), [&] {
    Arguments arguments(info);
    const int threads = static_cast<int>(arguments.integer());
    maxBufferBytes_ = static_cast<std::size_t>(arguments.integer());
    try {
      dispatcher_ = Environment::of(info.Env()).openDispatcher(threads);
    } catch (const std::system_error& error) {
      throw Napi::Error::New(info.Env(), std::string("cannot start a thread: ") + error.what());
    }
  });
}

template <typename MakeJob>
Napi::Value EngineObject::submit(const Napi::CallbackInfo& info, MakeJob makeJob, bool last) {
  const Napi::Env env = info.Env();
  if (dispatcher_ == nullptr) throw Napi::Error::New(env, "the engine was closed");
  Arguments arguments(info, device_);
  const Napi::Value settle = arguments.next();
  std::unique_ptr<Job> job = makeJob(arguments);
  job->settle = Napi::Persistent(settle.As<Napi::Function>());
  job->dispatcher = dispatcher_;
  return Napi::Number::New(env, Environment::of(env).submit(std::move(job), last));
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
                     {method<&EngineObject::start>("start"),
                      method<&EngineObject::close>("close"),
                      method<&EngineObject::openDevice>("openDevice"),
                      method<&EngineObject::call<closeDeviceJob>>("closeDevice"),
                      method<&EngineObject::call<deviceMemoryJob>>("deviceMemory"),
                      method<&EngineObject::call<allocDeviceJob>>("allocDevice"),
                      method<&EngineObject::call<uploadDeviceJob>>("uploadDevice"),
                      method<&EngineObject::call<downloadDeviceJob>>("downloadDevice"),
                      method<&EngineObject::call<freeDeviceJob>>("freeDevice"),
                      method<&EngineObject::call<importDeviceJob>>("importDevice"),
                      method<&EngineObject::call<shareDeviceJob>>("shareDevice"),
                      method<&EngineObject::call<sumFileTokensJob>>("sumFileTokens"),
                      method<&EngineObject::call<sumTokensJob>>("sumTokens"),
                      method<&EngineObject::call<scoreStatsJob>>("scoreStats"),
                      method<&EngineObject::call<logitStatsJob>>("logitStats"),
                      method<&EngineObject::call<tokenRowStatsJob>>("tokenRowStats"),
                      method<&EngineObject::call<gatherScoresJob>>("gatherScores"),
                      method<&EngineObject::call<takeTokensJob>>("takeTokens"),
                      method<&EngineObject::call<takeSumsJob>>("takeSums"),
                      method<&EngineObject::call<stepMomentsJob>>("stepMoments"),
                      method<&EngineObject::call<inferStepJob>>("inferStep"),
                      method<&EngineObject::call<promptMatricesJob>>("promptMatrices"),
                      method<&EngineObject::call<inferPairsJob>>("inferPairs"),
                      method<&EngineObject::call<actionDependenceJob>>("actionDependence"),
                      method<&EngineObject::call<matchedOrdersJob>>("matchedOrders"),
                      method<&EngineObject::call<periodicEpisodesJob>>("periodicEpisodes"),
                      method<&EngineObject::call<textFiguresJob>>("textFigures"),
                      method<&EngineObject::call<phraseSharesJob>>("phraseShares")});
}

}  // namespace collapsar
