// The addon's functions on shuffled actions. Each is computed before it returns: some ten nanoseconds a row and
// shuffle.
#pragma once

#include "napi_setup.h"

namespace collapsar {

Napi::Value actionDependence(const Napi::CallbackInfo& info);
Napi::Value matchedOrders(const Napi::CallbackInfo& info);
Napi::Value periodicEpisodes(const Napi::CallbackInfo& info);

}  // namespace collapsar
