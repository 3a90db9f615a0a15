#include "environment.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "memory_shortage.h"
#include "node/results/result_value.h"

namespace collapsar {
namespace {

std::atomic<std::int64_t> dispatchersAlive{0};

void check(Napi::Env env, napi_status status) {
  if (status != napi_ok) throw Napi::Error::New(env);
}

Napi::Value bytesOrUndefined(Napi::Env env, std::int64_t bytes) {
  return bytes < 0 ? env.Undefined() : numberOf(env, bytes);
}

}  // namespace

void Environment::attach(Napi::Env env) { env.SetInstanceData<Environment>(new Environment(env)); }

Environment& Environment::of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

Environment::Environment(Napi::Env env) : env_(env) {
  const Napi::String name = Napi::String::New(env, "collapsar");
  check(env,
        napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, onWake, &wake_));
  check(env, napi_unref_threadsafe_function(env, wake_));
  // Hooks run last in, first out: this one before the ThreadSafeFunction closes itself by its own.
  check(env, napi_add_env_cleanup_hook(env, onCleanup, this));
}

Environment::~Environment() = default;

std::shared_ptr<Dispatcher> Environment::openDispatcher(int threads) {
  std::shared_ptr<Dispatcher> dispatcher(
      new Dispatcher(threads, [this](Task* task) { ended(static_cast<Job*>(task)); }), [](Dispatcher* last) {
        delete last;
        --dispatchersAlive;
      });
  ++dispatchersAlive;
  std::erase_if(dispatchers_, [](const std::weak_ptr<Dispatcher>& known) { return known.expired(); });
  dispatchers_.push_back(dispatcher);
  return dispatcher;
}

std::uint32_t Environment::submit(std::unique_ptr<Job> job, bool last) {
  const bool first = jobs_.empty();
  do {
    ++lastId_;
  } while (jobs_.contains(lastId_));
  const std::uint32_t id = lastId_;
  Job* const running = job.get();
  running->id = id;
  jobs_.emplace(id, std::move(job));
  try {
    if (first) check(env_, napi_ref_threadsafe_function(env_, wake_));
    if (last) {
      running->dispatcher->submitLast(running);
    } else {
      running->dispatcher->submit(running);
    }
  } catch (...) {
    jobs_.erase(id);
    if (first) napi_unref_threadsafe_function(env_, wake_);
    throw;
  }
  return id;
}

void Environment::cancel(std::uint32_t id) {
  const auto entry = jobs_.find(id);
  if (entry == jobs_.end()) return;
  Job* const job = entry->second.get();
  job->cancel();
  // A job that waits behind a long one need not wait for it to learn that it is not wanted.
  if (job->dispatcher->withdraw(job)) {
    job->cancelled = true;
    ended(job);
  }
}

double Environment::progress(std::uint32_t id) {
  const auto entry = jobs_.find(id);
  if (entry == jobs_.end()) return 1;
  const JobControl& control = entry->second->control;
  const double total = static_cast<double>(control.totalUnits.load(std::memory_order_relaxed));
  const double done = static_cast<double>(control.doneUnits.load(std::memory_order_relaxed));
  return total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
}

void Environment::ended(Job* job) {
  bool first;
  {
    const std::lock_guard lock(endedMutex_);
    first = firstEnded_ == nullptr;
    (first ? firstEnded_ : lastEnded_->nextEnded) = job;
    lastEnded_ = job;
  }
  if (first) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

void Environment::onWake(napi_env env, napi_value, void* context, void*) {
  // Without an environment the cleanup hook has already taken care of everything.
  if (env != nullptr) static_cast<Environment*>(context)->settleEnded();
}

void Environment::settleEnded() {
  Job* job;
  {
    const std::lock_guard lock(endedMutex_);
    job = std::exchange(firstEnded_, nullptr);
  }
  while (job != nullptr) {
    auto entry = jobs_.find(job->id);
    const std::unique_ptr<Job> owned = std::move(entry->second);
    jobs_.erase(entry);
    job = owned->nextEnded;
    settle(*owned);
  }
  if (jobs_.empty()) napi_unref_threadsafe_function(env_, wake_);
}

// Must not throw: there is no caller, and Node would end the process. The TypeScript function called turns errors into
// rejections; what can still fail is an environment being torn down, where nobody waits.
void Environment::settle(Job& job) {
  try {
    const Napi::HandleScope scope(env_);
    int outcome = job.cancelled ? 1 : job.failure.empty() ? 0 : 2;
    Napi::Value value = env_.Undefined();
    if (outcome == 0) {
      try {
        value = job.result(env_);
      } catch (const std::bad_alloc& shortage) {
        outcome = 2;
        job.failedReason = kNoMemory;
        value = Napi::String::New(env_, wordsOf(shortage));
      } catch (const std::exception& error) {  // Napi::Error is one
        outcome = 2;
        value = Napi::String::New(env_, error.what());
      }
    } else if (outcome == 2) {
      value = Napi::String::New(env_, job.failure);
    }
    const Napi::Function settle = job.settle.Value();
    // The memory is free before anybody hears of the end.
    job.blocks.clear();
    job.buffers.clear();
    settle.Call({Napi::Number::New(env_, outcome), value, Napi::String::New(env_, job.failedArgument),
                 Napi::String::New(env_, job.failedReason), bytesOrUndefined(env_, job.askedBytes),
                 bytesOrUndefined(env_, job.freeBytes)});
  } catch (const std::exception&) {
  }
}

void Environment::onCleanup(void* self) { static_cast<Environment*>(self)->shutDown(); }

void Environment::shutDown() {
  for (const std::weak_ptr<Dispatcher>& known : dispatchers_) {
    if (const std::shared_ptr<Dispatcher> dispatcher = known.lock()) dispatcher->cancelAndJoin();
  }
  dispatchers_.clear();
  jobs_.clear();
  firstEnded_ = nullptr;
}

std::int64_t Environment::liveDispatchers() { return dispatchersAlive; }

}  // namespace collapsar
