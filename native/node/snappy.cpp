#include "snappy.h"

#include "engine/logs/snappy.h"
#include "node/arguments/arguments.h"

namespace collapsar {

Napi::Value unpackSnappy(const Napi::CallbackInfo& info) {
  const Napi::Uint8Array packed = byteArray(info[0], "packed");
  Napi::Uint8Array unpacked = byteArray(info[1], "unpacked");
  const bool isWhole = unpackSnappy(packed.Data(), static_cast<std::int64_t>(packed.ElementLength()), unpacked.Data(),
                                    static_cast<std::int64_t>(unpacked.ElementLength()));
  return Napi::Boolean::New(info.Env(), isWhole);
}

}  // namespace collapsar
