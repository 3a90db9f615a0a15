// A file for one test: open, without a name, and gone with its end.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "check.h"

namespace collapsar::test {

class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/collapsar-test-XXXXXX";
    fd = mkstemp(path.data());
    unlink(path.c_str());
  }
  ~TemporaryFile() { close(fd); }
  void write(const void* data, std::size_t bytes, std::int64_t offset) const {
    CHECK_EQUAL(pwrite(fd, data, bytes, offset), static_cast<ssize_t>(bytes));
  }

  int fd;
};

}  // namespace collapsar::test
