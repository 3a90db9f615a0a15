#include "failure.h"

#include <sstream>

namespace collapsar::cuda {

namespace {

std::string words(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string adviceFor(cudaError_t error, CollapsarCudaStatus status) {
  if (error == cudaErrorDevicesUnavailable) {
    return "; other processes have it, or it is in exclusive or prohibited mode: see nvidia-smi, and try again";
  }
  if (error == cudaErrorSystemNotReady) {
    return "; machines whose GPUs are joined by NVSwitch need the service nvidia-fabricmanager: see whether it runs";
  }
  switch (status) {
    case COLLAPSAR_CUDA_DEVICE_LOST:
      return "; the GPU or its context is lost to this process: start a new process, and see nvidia-smi and dmesg";
    case COLLAPSAR_CUDA_BAD_HANDLE:
      return "; the handle must come from a live process on this machine other than this one, and name memory that it "
             "still holds";
    case COLLAPSAR_CUDA_NO_DEVICE:
      return "; see nvidia-smi, and whether CUDA_VISIBLE_DEVICES hides the GPUs";
    case COLLAPSAR_CUDA_BAD_DEVICE:
      return "; this build has kernels for compute capability 8.0 and newer";
    default:
      return "";
  }
}

}  // namespace

CollapsarCudaStatus statusOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return COLLAPSAR_CUDA_OK;
    case cudaErrorMemoryAllocation:
      return COLLAPSAR_CUDA_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorSystemNotReady:
      return COLLAPSAR_CUDA_NO_DEVICE;
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return COLLAPSAR_CUDA_BAD_DEVICE;
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return COLLAPSAR_CUDA_DRIVER_TOO_OLD;
    case cudaErrorInvalidResourceHandle:
    case cudaErrorMapBufferObjectFailed:
      return COLLAPSAR_CUDA_BAD_HANDLE;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
#if CUDART_VERSION >= 13000  // older toolkits lack some of them
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
#endif
      return COLLAPSAR_CUDA_DEVICE_LOST;
    default:
      return COLLAPSAR_CUDA_FAILED;
  }
}

void check(cudaError_t result, const char* doing) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // errors that do not stick are forgotten, so that the next call does not meet them
  const CollapsarCudaStatus status = statusOf(result);
  if (status == COLLAPSAR_CUDA_OUT_OF_MEMORY) checkAllocation(result, 0, doing);
  throw Failure{status, std::string("CUDA failed while ") + doing + ": " + words(result) + adviceFor(result, status),
                result};
}

void checkAllocation(cudaError_t result, std::int64_t bytes, const char* what) {
  if (result == cudaSuccess) return;
  if (statusOf(result) != COLLAPSAR_CUDA_OUT_OF_MEMORY) check(result, (std::string("allocating ") + what).c_str());
  cudaGetLastError();
  std::size_t freeBytes = 0, totalBytes = 0;
  if (cudaMemGetInfo(&freeBytes, &totalBytes) != cudaSuccess) cudaGetLastError();
  std::ostringstream message;
  message << "out of device memory for " << what << ": ";
  if (bytes > 0) message << bytes << " bytes asked for, ";
  message << freeBytes << " of " << totalBytes
          << " free; free device tensors or other processes' memory, or pass the tensor in parts";
  throw Failure{COLLAPSAR_CUDA_OUT_OF_MEMORY, message.str(), result, bytes, static_cast<std::int64_t>(freeBytes)};
}

void invalid(const std::string& message) { throw Failure{COLLAPSAR_CUDA_INVALID, message}; }

void checkDriver() {
  int driver = 0, runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  const cudaError_t result = cudaDriverGetVersion(&driver);
  if (result != cudaSuccess || driver == 0) {
    cudaGetLastError();
    throw Failure{
        COLLAPSAR_CUDA_NO_DRIVER,
        "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded): install one, or use the CPU",
        result};
  }
  // Within a major version any driver runs any runtime.
  if (driver / 1000 < runtime / 1000) {
    throw Failure{COLLAPSAR_CUDA_DRIVER_TOO_OLD,
                  "the NVIDIA driver is for CUDA " + versionText(driver) + ", this build needs " +
                      std::to_string(runtime / 1000) +
                      ".0: update the driver, or build collapsar with an older CUDA toolkit",
                  result};
  }
}

}  // namespace collapsar::cuda
