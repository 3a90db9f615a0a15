// Tries the CUDA backend as an engine would use it. For a process that may crash or hang
// (src/engine/device/cuda-probe.ts).
#include "cuda_probe.h"

#include <string>
#include <vector>

#include "cuda_backend.h"
#include "device.h"
#include "device_info.h"
#include "node/results/result_value.h"

namespace collapsar {
namespace {

class ProbeTask : public Task {
 public:
  Outcome run(ThreadPool&) override { return Outcome::Done; }
};

// One sum on the GPU: a driver that opens a device may still not run this build's kernels.
void computeSomething(Device& device) {
  const float logprobs[] = {-1, -2, -4, -8};
  const std::int64_t length = 4;
  ProbeTask task;
  DeviceMemory memory;
  device.find(device.allocate(sizeof logprobs), &memory);
  device.upload(memory.pointer, logprobs, sizeof logprobs, task);
  double sum = 0;
  InvalidToken invalid;
  const TokenScores scores{memory.pointer, DType::Float32, 1, 1, 4, 4, 1, &length, nullptr};
  device.sumTokens(scores, true, {&sum, 1, nullptr}, false, &invalid, task);
  if (sum != -15)
    throw DeviceProblem{"failed", "the GPU computes wrong results: -1 -2 -4 -8 is " + std::to_string(sum)};
}

Napi::Object problemOf(Napi::Env env, const DeviceProblem& problem) {
  return objectOf(
      env, {{"reason", Napi::String::New(env, problem.reason)}, {"problem", Napi::String::New(env, problem.problem)}});
}

}  // namespace

// probeCuda(path: string, index: number):
//   { driver, runtime, build: string, devices: CudaDevice[] } | { reason, problem: string }
Napi::Value probeCuda(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::string path = info[0].As<Napi::String>();
  const int index = info[1].As<Napi::Number>().Int32Value();
  try {
    const CollapsarCudaBackend& backend = loadCudaBackend(path);
    CollapsarCudaError error{};
    std::int32_t count = 0;
    expectOk(backend.device_count(&count, &error), error);
    std::vector<CollapsarCudaDeviceInfo> devices(static_cast<std::size_t>(count), sized<CollapsarCudaDeviceInfo>());
    const Napi::Array list = Napi::Array::New(env);
    for (std::int32_t i = 0; i < count; ++i) {
      expectOk(backend.device_info(i, &devices[i], &error), error);
      list.Set(static_cast<std::uint32_t>(i), deviceInfoOf(env, devices[i]));
    }
    if (index < 0 || index >= count) {
      std::string there;
      for (const CollapsarCudaDeviceInfo& device : devices) {
        there += (there.empty() ? "cuda:" : ", cuda:") + std::to_string(device.index) + " (" + device.name + ")";
      }
      throw DeviceProblem{"bad_device", "there is no device " + std::to_string(index) + "; there " +
                                            (count == 1 ? "is " : "are ") + there};
    }
    Device device(path, index, false);
    device.open();
    computeSomething(device);
    return objectOf(env, {{"driver", cudaVersionOf(env, devices[index].driver_version)},
                          {"runtime", cudaVersionOf(env, devices[index].runtime_version)},
                          {"build", Napi::String::New(env, backend.build)},
                          {"devices", list}});
  } catch (const DeviceProblem& problem) {
    return problemOf(env, problem);
  }
}

}  // namespace collapsar
