// What the environment says that the fake shall do: the list is in backend.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

std::string setting(const char* name);
std::int64_t number(const char* name, std::int64_t otherwise);
bool fails(const char* way);
std::int64_t deviceBytes();

}  // namespace fake_cuda
