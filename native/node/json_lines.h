// What src/logs/rollouts/json-lines asks of native code.
#pragma once

#include "napi_setup.h"

namespace collapsar {

// jsonLines(bytes: Uint8Array, names: string[], texts: Uint8Array): Int32Array
Napi::Value jsonLines(const Napi::CallbackInfo& info);

}  // namespace collapsar
