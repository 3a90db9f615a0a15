#include "call.h"

#include <chrono>
#include <thread>

#include "engine/spin.h"
#include "failure.h"

namespace collapsar::cuda {

namespace {

constexpr std::chrono::microseconds kProducerPoll{20};

}  // namespace

Call::Call(CollapsarCudaDevice& device, const CollapsarCudaControl* control, std::int64_t totalUnits)
    : device_(device), total_(totalUnits) {
  if (control != nullptr) {
    if (control->size != sizeof(CollapsarCudaControl)) invalid("control: its size is of another version of the ABI");
    control_ = *control;
  }
  device.use();
  device.beginCall();
  stopIfCancelled();
  // Here a cancel gets through, and not where results are waited for.
  if (spinUntil([&] { return !device.awaitsProducer(); })) return;
  while (device.awaitsProducer()) {
    stopIfCancelled();
    std::this_thread::sleep_for(kProducerPoll);
  }
}

Call::~Call() {
  // However the call ended: nothing of it may run on, because its host memory goes away.
  cudaStreamSynchronize(device_.inputStream());
  cudaStreamSynchronize(device_.stream());
  for (const std::vector<cudaEvent_t>* events : {&begins_, &ends_}) {
    for (const cudaEvent_t event : *events) cudaEventDestroy(event);
  }
  try {
    device_.trim(CollapsarCudaDevice::Trim::Large);
  } catch (const Failure&) {  // the device is lost: the next call says so
  }
}

void Call::stopIfCancelled() {
  if (control_.cancelled == nullptr || *control_.cancelled == 0) return;
  throw Failure{COLLAPSAR_CUDA_CANCELLED, "cancelled by the caller"};
}

void Call::addDone(std::int64_t units) {
  done_ += units;
  if (control_.progress != nullptr) control_.progress(control_.progress_context, done_, total_);
}

void Call::run(const std::function<void()>& startKernels) {
  if (control_.kernel_seconds == nullptr) return startKernels();
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "making an event");
  begins_.push_back(begin);
  check(cudaEventCreate(&end), "making an event");
  ends_.push_back(end);
  check(cudaEventRecord(begin, device_.stream()), "running kernels");
  startKernels();
  check(cudaEventRecord(end, device_.stream()), "running kernels");
}

void Call::finish() {
  device_.synchronize();
  if (control_.kernel_seconds == nullptr) return;
  double seconds = 0;
  for (std::size_t i = 0; i < begins_.size(); i++) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begins_[i], ends_[i]), "timing kernels");
    seconds += 1e-3 * static_cast<double>(milliseconds);
  }
  *control_.kernel_seconds = seconds;
}

}  // namespace collapsar::cuda
