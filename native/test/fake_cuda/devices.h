// Which devices there are, and opening one.
#pragma once

#include <cstdint>

#include "device.h"

namespace fake_cuda {

Status deviceCount(std::int32_t* count, Error* error);
Status deviceInfo(std::int32_t index, CollapsarCudaDeviceInfo* info, Error* error);
Status openDevice(std::int32_t index, CollapsarCudaDevice** device, Error* error);
void closeDevice(CollapsarCudaDevice* device);

}  // namespace fake_cuda
