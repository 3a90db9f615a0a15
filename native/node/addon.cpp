// The addon's exports (src/engine/addon.ts, NativeAddon). Loaded once for every Node environment of the process.
#include "engine/isa.h"
#include "engine_object.h"
#include "environment.h"
#include "guard.h"
#include "json_lines.h"
#include "memory_block.h"
#include "napi_setup.h"
#include "node/gpu/cuda_probe.h"
#include "node/jobs/operations.h"
#include "node/results/result_value.h"
#include "snappy.h"
#include "token_sink_object.h"

namespace collapsar {
namespace {

// alloc(bytes: number): ArrayBuffer    zeros in native memory; bytes up to the largest ArrayBuffer Node can wrap
Napi::Value alloc(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::int64_t bytes = arguments.integer();
  return bufferOver(info.Env(), MemoryBlock::allocate(static_cast<std::size_t>(bytes)));
}

// The job that makeJob, a function of operations.h, makes of the arguments but the first: computed before it returns.
template <auto makeJob>
Napi::Value computeNow(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  arguments.next();  // nothing to settle
  const std::unique_ptr<Job> job = makeJob(arguments);
  ThreadPool alone(1);
  job->run(alone);
  return job->result(info.Env());
}

// cancel(job: number): void    no effect on a job that has ended
Napi::Value cancel(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).cancel(info[0].As<Napi::Number>().Uint32Value());
  return info.Env().Undefined();
}

// progress(job: number): number    the share done, 0 to 1
Napi::Value progress(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Environment::of(info.Env()).progress(info[0].As<Napi::Number>().Uint32Value()));
}

// isa(): string
Napi::Value isa(const Napi::CallbackInfo& info) { return Napi::String::New(info.Env(), isaName(activeIsa())); }

// isaAvailable(): string[]
Napi::Value isaAvailable(const Napi::CallbackInfo& info) {
  const Napi::Array names = Napi::Array::New(info.Env());
  for (const Isa candidate : {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512}) {
    if (isaSupported(candidate)) names.Set(names.Length(), Napi::String::New(info.Env(), isaName(candidate)));
  }
  return names;
}

// forceIsa(name: string): boolean    for the whole process; for tests
Napi::Value forceIsa(const Napi::CallbackInfo& info) {
  const std::string name = info[0].As<Napi::String>();
  return Napi::Boolean::New(info.Env(), collapsar::forceIsa(name.c_str()));
}

// live(): { blocks, bytes, jobs, dispatchers: number }    of the whole process; for leak tests
Napi::Value live(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return objectOf(env, {{"blocks", numberOf(env, MemoryBlock::liveBlocks())},
                        {"bytes", numberOf(env, MemoryBlock::liveBytes())},
                        {"jobs", numberOf(env, Job::liveJobs())},
                        {"dispatchers", numberOf(env, Environment::liveDispatchers())}});
}

template <Napi::Value (*function)(const Napi::CallbackInfo&)>
Napi::PropertyDescriptor exported(Napi::Env env, const char* name) {
  return Napi::PropertyDescriptor::Value(name, Napi::Function::New<guardedCall<function>>(env, name), napi_enumerable);
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  Environment::attach(env);
  exports.DefineProperties(
      {Napi::PropertyDescriptor::Value("NativeEngine", EngineObject::define(env), napi_enumerable),
       Napi::PropertyDescriptor::Value("NativeTokenSink", TokenSinkObject::define(env), napi_enumerable),
       exported<alloc>(env, "alloc"), exported<cancel>(env, "cancel"), exported<progress>(env, "progress"),
       exported<isa>(env, "isa"), exported<isaAvailable>(env, "isaAvailable"), exported<forceIsa>(env, "forceIsa"),
       exported<probeCuda>(env, "probeCuda"), exported<computeNow<actionDependenceJob>>(env, "actionDependence"),
       exported<computeNow<matchedOrdersJob>>(env, "matchedOrders"),
       exported<computeNow<periodicEpisodesJob>>(env, "periodicEpisodes"), exported<jsonLines>(env, "jsonLines"),
       exported<unpackSnappy>(env, "unpackSnappy"), exported<live>(env, "live")});
  return exports;
}

}  // namespace

// node-addon-api's macro wants a plain name at file scope.
static Napi::Object collapsarInitialize(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&] { return initialize(env, exports); });
}
NODE_API_MODULE(collapsar, collapsarInitialize)

}  // namespace collapsar
