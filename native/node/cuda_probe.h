// What the probe's process calls (src/engine/cuda-probe.ts).
#pragma once

#include "napi_setup.h"

namespace collapsar {

Napi::Value probeCuda(const Napi::CallbackInfo& info);

}  // namespace collapsar
