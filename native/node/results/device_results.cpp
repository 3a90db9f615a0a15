#include "device_results.h"

namespace collapsar {

bool takeOutOnDevice(Job& job, Arguments& arguments) {
  if (!arguments.flag()) return false;
  if (arguments.device() == nullptr) throw Napi::Error::New(arguments.env(), "this engine has no GPU");
  job.device = arguments.device();
  return true;
}

Outcome DeviceResults::keepIfDone(Device& device, const std::function<Outcome()>& compute) {
  Outcome outcome = Outcome::Cancelled;
  try {
    outcome = compute();
  } catch (...) {
    free(device);
    throw;
  }
  if (outcome != Outcome::Done) free(device);
  return outcome;
}

void* DeviceResults::allocateBytes(Device& device, std::int64_t bytes, std::uint32_t* number) {
  numbers_.reserve(numbers_.size() + 1);  // so that noting it cannot fail when it is there
  *number = device.allocate(bytes);
  numbers_.push_back(*number);
  DeviceMemory memory;
  device.find(*number, &memory);
  return memory.pointer;
}

void DeviceResults::free(Device& device) {
  for (const std::uint32_t number : numbers_) device.free(number);
  numbers_.clear();
}

}  // namespace collapsar
