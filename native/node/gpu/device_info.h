// What the backend says of a GPU -> the JavaScript object CudaDevice of src/engine/device/cuda-probe.ts.
#pragma once

#include "cuda/backend.h"
#include "node/napi_setup.h"

namespace collapsar {

Napi::Object deviceInfoOf(Napi::Env env, const CollapsarCudaDeviceInfo& info);

// 13000 -> "13.0"
Napi::String cudaVersionOf(Napi::Env env, int version);

}  // namespace collapsar
