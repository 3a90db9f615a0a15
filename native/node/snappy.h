// What src/logs/rollouts/parquet asks of native code.
#pragma once

#include "napi_setup.h"

namespace collapsar {

// unpackSnappy(packed: Uint8Array, unpacked: Uint8Array): boolean
Napi::Value unpackSnappy(const Napi::CallbackInfo& info);

}  // namespace collapsar
