#include "settings.h"

#include <cstdlib>

namespace fake_cuda {

std::string setting(const char* name) {
  const char* const value = std::getenv((std::string("COLLAPSAR_FAKE_CUDA_") + name).c_str());
  return value == nullptr ? "" : value;
}

std::int64_t number(const char* name, std::int64_t otherwise) {
  const std::string value = setting(name);
  return value.empty() ? otherwise : std::stoll(value);
}

bool fails(const char* way) { return setting("FAIL") == way; }
std::int64_t deviceBytes() { return number("BYTES", std::int64_t{64} << 20); }

}  // namespace fake_cuda
