// What the environment says the emulated GPU shall do, read at every call of the backend:
//   COLLAPSAR_EMULATED_GPU_FAIL       crash | exit | hang | version | no_driver | driver_too_old | no_device | busy |
//                                     wrong | lost
//   COLLAPSAR_EMULATED_GPU_DEVICES    how many devices there are (2)
//   COLLAPSAR_EMULATED_GPU_BYTES      memory of each (1 GiB)
//   COLLAPSAR_EMULATED_GPU_LAUNCH_US  microseconds that each start of a kernel takes more (0)
//   COLLAPSAR_EMULATED_GPU_TRACE      a file that gets a line for each call: its name and the device's number
#pragma once

#include <stddef.h>

#include <string>

namespace emulation {

struct Settings {
  std::string fail, trace;
  int devices = 2;
  size_t bytes = size_t{1} << 30;
  int launchMicroseconds = 0;
};

void readSettings();

// As they were last read.
Settings settings();
inline bool fails(const char* way) { return settings().fail == way; }

}  // namespace emulation
