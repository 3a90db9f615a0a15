#include "json_lines.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engine/logs/json_lines.h"
#include "node/arguments/arguments.h"

namespace collapsar {

Napi::Value jsonLines(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Uint8Array bytes = byteArray(info[0], "bytes");
  Napi::Uint8Array texts = byteArray(info[2], "texts");
  const std::size_t length = bytes.ElementLength();
  if (length > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    rejectArgument(env, "bytes", "more than 2^31 - 1 bytes");
  if (texts.ElementLength() < length) rejectArgument(env, "texts", "less room than there are bytes");
  const Napi::Array given = info[1].As<Napi::Array>();
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < given.Length(); i++) names.push_back(given.Get(i).As<Napi::String>());
  std::vector<std::int32_t> lines;
  scanJsonLines(bytes.Data(), static_cast<std::int64_t>(length), names, texts.Data(), lines);
  Napi::Int32Array result = Napi::Int32Array::New(env, lines.size());
  std::copy(lines.begin(), lines.end(), result.Data());
  return result;
}

}  // namespace collapsar
