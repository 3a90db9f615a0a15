#include "device_info.h"

#include <string>

#include "node/results/result_value.h"

namespace collapsar {

Napi::String cudaVersionOf(Napi::Env env, int version) {
  return Napi::String::New(env, std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
}

Napi::Object deviceInfoOf(Napi::Env env, const CollapsarCudaDeviceInfo& info) {
  const auto number = [&](double value) { return Napi::Number::New(env, value); };
  const std::string capability = std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor);
  return objectOf(env, {{"index", number(info.index)},
                        {"name", Napi::String::New(env, info.name)},
                        {"computeCapability", Napi::String::New(env, capability)},
                        {"supported", Napi::Boolean::New(env, info.supported != 0)},
                        {"totalBytes", number(static_cast<double>(info.total_bytes))},
                        {"multiprocessors", number(info.multiprocessors)},
                        {"pciId", Napi::String::New(env, info.pci_id)}});
}

}  // namespace collapsar
