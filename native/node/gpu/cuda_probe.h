// What the probe's process calls (src/engine/device/cuda-probe.ts).
#pragma once

#include "node/napi_setup.h"

namespace collapsar {

Napi::Value probeCuda(const Napi::CallbackInfo& info);

}  // namespace collapsar
