#include "result_value.h"

#include <algorithm>
#include <utility>

namespace collapsar {

Napi::Object objectOf(Napi::Env env, std::initializer_list<Field> fields) {
  Napi::Object object = Napi::Object::New(env);
  std::vector<napi_property_descriptor> properties;
  properties.reserve(fields.size());
  for (const Field& field : fields) {
    napi_property_descriptor property{};
    property.utf8name = field.name;
    property.value = field.value;
    property.attributes = napi_default_jsproperty;
    properties.push_back(property);
  }
  if (napi_define_properties(env, object, properties.size(), properties.data()) != napi_ok) throw Napi::Error::New(env);
  return object;
}

Napi::Number numberOf(Napi::Env env, std::int64_t value) { return Napi::Number::New(env, static_cast<double>(value)); }

Napi::Value numbersOf(Napi::Env env, const std::vector<double>& numbers) {
  Napi::Float64Array array = Napi::Float64Array::New(env, numbers.size());
  std::copy(numbers.begin(), numbers.end(), array.Data());
  return array;
}

Napi::Value bytesOf(Napi::Env env, const std::vector<std::uint8_t>& bytes) {
  Napi::Uint8Array array = Napi::Uint8Array::New(env, bytes.size());
  std::copy(bytes.begin(), bytes.end(), array.Data());
  return array;
}

Napi::Value halvesOf(Napi::Env env, const std::vector<std::uint16_t>& bits) {
  Napi::Uint16Array array = Napi::Uint16Array::New(env, bits.size());
  std::copy(bits.begin(), bits.end(), array.Data());
  return array;
}

Napi::ArrayBuffer bufferOver(Napi::Env env, std::shared_ptr<MemoryBlock> block) {
  // V8 gives an empty ArrayBuffer no address, so it could not be found by it.
  if (block->size() == 0) return Napi::ArrayBuffer::New(env, 0);
  void* const data = block->data();
  const std::size_t size = block->size();
  auto owner = std::make_unique<std::shared_ptr<MemoryBlock>>(std::move(block));
  napi_value buffer;
  const napi_status status = napi_create_external_arraybuffer(
      env, data, size, [](napi_env, void*, void* hint) { delete static_cast<std::shared_ptr<MemoryBlock>*>(hint); },
      owner.get(), &buffer);
  if (status != napi_ok) throw Napi::Error::New(env);
  owner.release();
  return Napi::ArrayBuffer(env, buffer);
}

Napi::Value float64View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length) {
  return Napi::Float64Array::New(buffer.Env(), static_cast<std::size_t>(length), buffer, byteOffset);
}

Napi::Value int32View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length) {
  return Napi::Int32Array::New(buffer.Env(), static_cast<std::size_t>(length), buffer, byteOffset);
}

Napi::Value int64View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length) {
  return Napi::BigInt64Array::New(buffer.Env(), static_cast<std::size_t>(length), buffer, byteOffset);
}

Napi::Value invalidTokenValue(Napi::Env env, const InvalidToken& invalid) {
  if (invalid.prompt < 0) return env.Null();
  return objectOf(env, {{"prompt", numberOf(env, invalid.prompt)},
                        {"row", numberOf(env, invalid.row)},
                        {"token", numberOf(env, invalid.token)}});
}

Napi::Value failureValue(Napi::Env env, const ReadFailure& failure) {
  if (failure.offset < 0) return env.Null();
  return objectOf(env, {{"error", numberOf(env, failure.error)}, {"offset", numberOf(env, failure.offset)}});
}

}  // namespace collapsar
