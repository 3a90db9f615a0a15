// The choice of the instruction set: what COLLAPSAR_ISA and forceIsa may and may not do.
#include "engine/isa.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.h"
#include "engine/simd/kernel_table.h"

using namespace collapsar;

namespace {

constexpr Isa kAll[] = {Isa::Baseline, Isa::Neon, Isa::Avx2, Isa::Avx512};

Isa best() {
  Isa found = Isa::Baseline;
  for (const Isa isa : kAll) found = isaSupported(isa) ? isa : found;
  return found;
}

// The choice is made once a process, so each value is tried in one of its own.
Isa activeWith(const char* value) {
  const pid_t child = fork();
  if (child == 0) {
    if (value != nullptr) {
      setenv("COLLAPSAR_ISA", value, 1);
    } else {
      unsetenv("COLLAPSAR_ISA");
    }
    _exit(static_cast<int>(activeIsa()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  return static_cast<Isa>(WEXITSTATUS(status));
}

}  // namespace

TEST_CASE("the environment chooses, if it can") {
  CHECK(activeWith(nullptr) == best());
  for (const Isa isa : kAll) CHECK(activeWith(isaName(isa)) == (isaSupported(isa) ? isa : best()));
  CHECK(activeWith("") == best());
  CHECK(activeWith("sse9") == best());
  CHECK(activeWith("AVX2") == best());  // names are lower case
}

TEST_CASE("forcing what is not there changes nothing") {
  CHECK(forceIsa("baseline"));
  CHECK(activeIsa() == Isa::Baseline);
  CHECK(&kernels() == kBaselineKernels);
  CHECK(!forceIsa("sse9"));
  CHECK(!forceIsa(""));
  for (const Isa isa : kAll) {
    if (!isaSupported(isa)) CHECK(!forceIsa(isaName(isa)));
  }
  CHECK(activeIsa() == Isa::Baseline);
  CHECK(forceIsa(isaName(best())));
  CHECK(activeIsa() == best());
}

TEST_CASE("every processor has the baseline and the names are distinct") {
  CHECK(isaSupported(Isa::Baseline));
#if defined(__aarch64__)
  CHECK(isaSupported(Isa::Neon));
#endif
  for (const Isa a : kAll) {
    for (const Isa b : kAll) CHECK_EQUAL(std::strcmp(isaName(a), isaName(b)) == 0, a == b);
  }
}

int main() { return collapsar::test::runCases(); }
