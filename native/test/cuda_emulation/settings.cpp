#include "settings.h"

#include <stdlib.h>

#include "cuda_runtime.h"

namespace emulation {
namespace {

Settings current;

std::string textOf(const char* name) {
  const char* const value = getenv((std::string("COLLAPSAR_EMULATED_GPU_") + name).c_str());
  return value == nullptr ? "" : value;
}

long long numberOf(const char* name, long long otherwise) {
  const std::string value = textOf(name);
  return value.empty() ? otherwise : std::stoll(value);
}

}  // namespace

Settings settings() {
  const EmulationLock lock;
  return current;
}

void readSettings() {
  const EmulationLock lock;
  const Settings standard;
  current.fail = textOf("FAIL");
  current.trace = textOf("TRACE");
  current.devices = static_cast<int>(numberOf("DEVICES", standard.devices));
  current.bytes = static_cast<size_t>(numberOf("BYTES", static_cast<long long>(standard.bytes)));
  current.launchMicroseconds = static_cast<int>(numberOf("LAUNCH_US", standard.launchMicroseconds));
}

}  // namespace emulation
