// What the addon keeps for one Node environment (the main thread or one worker): its jobs, its dispatchers, and the one
// ThreadSafeFunction through which jobs come back to its JS thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "job.h"
#include "napi_setup.h"

namespace collapsar {

// Rules, each for a bug seen in other addons:
// - Nothing of an environment is global: workers load the same library.
// - The ThreadSafeFunction is referenced only while jobs run, or an idle engine would keep the process alive.
// - A cleanup hook cancels and joins everything first: no thread may use freed memory or a dead environment.
class Environment {
 public:
  // Once for an environment, at load.
  static void attach(Napi::Env env);
  static Environment& of(Napi::Env env);

  ~Environment();

  std::shared_ptr<Dispatcher> openDispatcher(int threads);

  // Hands the job to its dispatcher (as the last one if `last`) and returns its number.
  std::uint32_t submit(std::unique_ptr<Job> job, bool last = false);
  void cancel(std::uint32_t id);      // no effect once it ended
  double progress(std::uint32_t id);  // 0..1

  static std::int64_t liveDispatchers();

 private:
  explicit Environment(Napi::Env env);

  void ended(Job* job);  // any thread
  void settleEnded();    // JS thread
  void settle(Job& job);
  void shutDown();
  static void onWake(napi_env env, napi_value function, void* context, void* data);
  static void onCleanup(void* self);

  Napi::Env env_;
  napi_threadsafe_function wake_ = nullptr;
  std::uint32_t lastId_ = 0;
  std::unordered_map<std::uint32_t, std::unique_ptr<Job>> jobs_;
  std::vector<std::weak_ptr<Dispatcher>> dispatchers_;

  std::mutex endedMutex_;
  Job* firstEnded_ = nullptr;  // linked by nextEnded: to report an end takes no memory
  Job* lastEnded_ = nullptr;
};

}  // namespace collapsar
