// What the sections of cuda_check share: how it was called, the device, the count of rows; and the sections.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "test/cuda_device.h"

namespace collapsar::test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline const char* const kTypeNames[] = {"float64", "float32", "float16", "bfloat16"};

struct Options {
  const char* backend = nullptr;
  int device = 0;
  bool tiny = false, quick = false, large = false;  // tiny is quick, too
  std::uint64_t seed = 1;
  std::string only;
};
inline Options options;

inline CudaDevice* device = nullptr;
inline long rowsChecked = 0;

// The sections, each in a file of its name.
void logitChecks();
void scoreChecks();
void tokenChecks();
void fusedChecks();
void memoryChecks();
void repeatChecks();
void errorChecks();

}  // namespace collapsar::test
