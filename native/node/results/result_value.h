// Native results -> JavaScript values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "engine/file_reader.h"
#include "engine/tokens/sum_tokens.h"
#include "node/memory_block.h"
#include "node/napi_setup.h"

namespace collapsar {

struct Field {
  const char* name;
  Napi::Value value;
};

// An object with these fields. They are defined, not set: a setter on Object.prototype must not see them.
Napi::Object objectOf(Napi::Env env, std::initializer_list<Field> fields);

// A JavaScript number; exact up to 2^53.
Napi::Number numberOf(Napi::Env env, std::int64_t value);

// A Float64Array of them, which costs less than naming each.
Napi::Value numbersOf(Napi::Env env, const std::vector<double>& numbers);

// A Uint8Array, and a Uint16Array, of copies.
Napi::Value bytesOf(Napi::Env env, const std::vector<std::uint8_t>& bytes);
Napi::Value halvesOf(Napi::Env env, const std::vector<std::uint16_t>& bits);

// The one ArrayBuffer over a block. Never make a second one over the same block: V8 forbids two buffers at one address.
Napi::ArrayBuffer bufferOver(Napi::Env env, std::shared_ptr<MemoryBlock> block);

Napi::Value float64View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length);
Napi::Value int32View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length);
Napi::Value int64View(Napi::ArrayBuffer buffer, std::size_t byteOffset, std::int64_t length);

// { prompt, row, token: number }, or null if there is none.
Napi::Value invalidTokenValue(Napi::Env env, const InvalidToken& invalid);

// { error, offset: number }, or null. error: errno, or 0 where the file ends too early.
Napi::Value failureValue(Napi::Env env, const ReadFailure& failure);

}  // namespace collapsar
