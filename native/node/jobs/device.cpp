// An engine's GPU and its memory as jobs: open, allocate, copy, import, free, close. The GPU is used by the
// dispatcher's thread alone, so that each of them waits for its turn like an operation.
#include <cstring>

#include "node/gpu/device_info.h"
#include "node/gpu/torch_ref_counter.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class OpenDeviceJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    device->open();
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }
};

class CloseDeviceJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    device->close();
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }
};

class DeviceMemoryJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    device->memoryInfo(&freeBytes_, &totalBytes_);
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override {
    return objectOf(env, {{"freeBytes", numberOf(env, freeBytes_)}, {"totalBytes", numberOf(env, totalBytes_)}});
  }

 private:
  std::int64_t freeBytes_ = 0, totalBytes_ = 0;
};

// New memory, with the bytes at `source` if that is not null.
class AllocateJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    number_ = device->allocate(bytes);
    if (source == nullptr || bytes == 0) return Outcome::Done;
    Outcome outcome = Outcome::Cancelled;
    try {
      DeviceMemory memory;
      device->find(number_, &memory);
      outcome = device->upload(memory.pointer, source, bytes, *this);
    } catch (...) {
      device->free(number_);
      throw;
    }
    if (outcome == Outcome::Cancelled) device->free(number_);
    return outcome;
  }
  Napi::Value result(Napi::Env env) override { return numberOf(env, number_); }

  std::int64_t bytes = 0;
  const void* source = nullptr;

 private:
  std::uint32_t number_ = 0;
};

class DownloadJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    return bytes == 0 ? Outcome::Done : device->download(target, source, bytes, *this);
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }

  void* target = nullptr;
  const void* source = nullptr;
  std::int64_t bytes = 0;
};

class FreeJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    device->free(number);
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }

  std::uint32_t number = 0;
};

// Takes over PyTorch's count: an import that fails, or never runs, gives it back.
class ImportJob : public Job {
 public:
  ~ImportJob() override {
    if (number_ == 0 && !wanted.counterName.empty()) lowerTorchRefCounter(wanted.counterName, wanted.counterIndex);
  }
  Outcome run(ThreadPool&) override {
    number_ = device->import(handle, offset, hasEvent ? event : nullptr, wanted);
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override { return numberOf(env, number_); }

  unsigned char handle[COLLAPSAR_CUDA_HANDLE_BYTES], event[COLLAPSAR_CUDA_HANDLE_BYTES];
  bool hasEvent = false;
  std::int64_t offset = 0;
  DeviceMemory wanted;

 private:
  std::uint32_t number_ = 0;
};

class ShareJob : public Job {
 public:
  Outcome run(ThreadPool&) override {
    shared_ = device->share(pointer);
    // The event is of no use without a stream that goes on; all that came before has been waited for.
    device->endShare(shared_.event);
    return Outcome::Done;
  }
  Napi::Value result(Napi::Env env) override {
    Napi::Uint8Array handle = Napi::Uint8Array::New(env, sizeof shared_.handle);
    std::memcpy(handle.Data(), shared_.handle, sizeof shared_.handle);
    return objectOf(env, {{"handle", handle}, {"offset", numberOf(env, shared_.offset_bytes)}});
  }

  const void* pointer = nullptr;

 private:
  CollapsarCudaIpcExport shared_{};
};

void takeHandle(Napi::Value given, unsigned char* handle) {
  const Napi::Uint8Array bytes = given.As<Napi::Uint8Array>();
  if (bytes.ByteLength() != COLLAPSAR_CUDA_HANDLE_BYTES)
    rejectArgument(given.Env(), "source.handle", "has no 64 bytes");
  std::memcpy(handle, bytes.Data(), COLLAPSAR_CUDA_HANDLE_BYTES);
}

template <typename Kind>
std::unique_ptr<Kind> onDevice(Arguments& arguments) {
  if (arguments.device() == nullptr) throw Napi::Error::New(arguments.env(), "this engine has no GPU");
  auto job = std::make_unique<Kind>();
  job->device = arguments.device();
  return job;
}

std::uint32_t memoryNumber(Arguments& arguments) { return static_cast<std::uint32_t>(arguments.integer()); }

// The memory of the job's device that the next argument names.
DeviceMemory takeMemory(const Job& job, Arguments& arguments) {
  DeviceMemory memory;
  if (!job.device->find(memoryNumber(arguments), &memory)) {
    throw Napi::Error::New(arguments.env(), "the memory of this DeviceTensor is gone, or of another engine");
  }
  return memory;
}

}  // namespace

// openDevice(settle, path: string, index: number, takesHostTensors: boolean): number
// The engine makes the Device of these arguments.
std::unique_ptr<Job> openDeviceJob(Arguments& arguments) { return onDevice<OpenDeviceJob>(arguments); }

// closeDevice(settle): number    frees all memory
std::unique_ptr<Job> closeDeviceJob(Arguments& arguments) { return onDevice<CloseDeviceJob>(arguments); }

// deviceMemory(settle): number
std::unique_ptr<Job> deviceMemoryJob(Arguments& arguments) { return onDevice<DeviceMemoryJob>(arguments); }

// allocDevice(settle, bytes: number): number
std::unique_ptr<Job> allocDeviceJob(Arguments& arguments) {
  auto job = onDevice<AllocateJob>(arguments);
  job->bytes = arguments.integer();
  return job;
}

// uploadDevice(settle, data: TensorData, dtype: 0|1|2|3, protected: boolean, elements: number): number
std::unique_ptr<Job> uploadDeviceJob(Arguments& arguments) {
  auto job = onDevice<AllocateJob>(arguments);
  const Napi::Value data = arguments.next();
  const DType dtype = arguments.dtype();
  const bool protectedByCaller = arguments.flag();
  const std::int64_t elements = arguments.integer();
  job->source = holdTensor(*job, data, "tensor", dtype, {{elements, 1}}, protectedByCaller);
  job->bytes = elements * static_cast<std::int64_t>(sizeOf(dtype));
  return job;
}

// downloadDevice(settle, memory: DeviceMemory, data: TensorData, dtype: 0|1|2|3, elements: number): number
// data is engine memory or over a SharedArrayBuffer.
std::unique_ptr<Job> downloadDeviceJob(Arguments& arguments) {
  auto job = onDevice<DownloadJob>(arguments);
  const DeviceMemory memory = takeMemory(*job, arguments);
  const Napi::Value data = arguments.next();
  const DType dtype = arguments.dtype();
  const std::int64_t elements = arguments.integer();
  job->bytes = elements * static_cast<std::int64_t>(sizeOf(dtype));
  if (job->bytes > memory.bytes) rejectArgument(arguments.env(), "elements", "are more than the tensor has");
  job->source = memory.pointer;
  job->target = const_cast<void*>(holdTensor(*job, data, "data", dtype, {{elements, 1}}, true));
  return job;
}

// freeDevice(settle, memory: DeviceMemory): number    no effect if it is free
std::unique_ptr<Job> freeDeviceJob(Arguments& arguments) {
  auto job = onDevice<FreeJob>(arguments);
  job->number = memoryNumber(arguments);
  return job;
}

// importDevice(settle, handle: Uint8Array, offset, bytes: number, event: Uint8Array | undefined,
//              counterName: string | undefined, counterIndex: number): number
std::unique_ptr<Job> importDeviceJob(Arguments& arguments) {
  auto job = onDevice<ImportJob>(arguments);
  takeHandle(arguments.next(), job->handle);
  job->offset = arguments.integer();
  job->wanted.bytes = arguments.integer();
  const Napi::Value event = arguments.next();
  job->hasEvent = !event.IsUndefined();
  if (job->hasEvent) takeHandle(event, job->event);
  const Napi::Value counterName = arguments.next();
  if (!counterName.IsUndefined()) job->wanted.counterName = counterName.As<Napi::String>().Utf8Value();
  job->wanted.counterIndex = arguments.integer();
  return job;
}

// shareDevice(settle, memory: DeviceMemory): number    for another process, which must let go before it is freed
std::unique_ptr<Job> shareDeviceJob(Arguments& arguments) {
  auto job = onDevice<ShareJob>(arguments);
  job->pointer = takeMemory(*job, arguments).pointer;
  return job;
}

}  // namespace collapsar
