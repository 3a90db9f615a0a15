// A CUDA backend against float64 and long double on the CPU: every operation, type, layout and size class, on random,
// adversarial and golden rows, into poisoned results.
//
//   cuda_check BACKEND.so [--device N] [--tiny | --quick | --large] [--seed N]
//              [--only logits|scores|tokens|fused|memory|repeats|errors]
//
// --tiny: one shape of each kernel, for compute-sanitizer. --quick: small shapes, for an emulated device. --large: also
// full vocabularies, V = 2^20, millions of short rows. Exit status 1 if a check fails.
#include "cuda_check.h"

#include <cstdlib>
#include <iostream>
#include <string>

#include "gates.h"
#include "test/check.h"

using namespace collapsar::test;

namespace {

bool runSection(const char* name, void (*body)()) {
  if (!options.only.empty() && options.only != name) return true;
  failures() = 0;
  rowsChecked = 0;
  body();
  std::cout << name << ": " << rowsChecked << " rows checked, " << failures() << " failed\n" << std::flush;
  return failures() == 0;
}

void printWorst(const char* what, const Worst& worst) {
  std::cout << "largest errors, in gates, " << what << ": log-sum-exp " << worst.logsumexp << ", entropy "
            << worst.entropy << ", target log-prob " << worst.targetLogprob << ", marginals " << worst.marginal
            << ", sums " << worst.sums << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    const std::string argument = arguments[i];
    const char* const next = i + 1 < count ? arguments[i + 1] : "";
    if (argument == "--quick" || argument == "--tiny") {
      options.quick = true;
      options.tiny = argument == "--tiny";
    } else if (argument == "--large") {
      options.large = true;
    } else if (argument == "--device" || argument == "--seed" || argument == "--only") {
      if (argument == "--device") options.device = std::atoi(next);
      if (argument == "--seed") options.seed = std::strtoull(next, nullptr, 10);
      if (argument == "--only") options.only = next;
      i++;
    } else {
      require(options.backend == nullptr, "unknown argument " + argument);
      options.backend = arguments[i];
    }
  }
  require(options.backend != nullptr,
          "no backend: cuda_check BACKEND.so [--device N] [--tiny | --quick | --large] [--seed N] [--only SECTION]");
  CudaDevice opened(options.backend, options.device);
  device = &opened;
  std::cout << opened.info().name << ", compute capability " << opened.info().compute_major << "."
            << opened.info().compute_minor << ", " << opened.info().multiprocessors << " multiprocessors; "
            << opened->build << "\n";
  bool passed = true;
  passed &= runSection("logits", logitChecks);
  passed &= runSection("scores", scoreChecks);
  passed &= runSection("tokens", tokenChecks);
  passed &= runSection("fused", fusedChecks);
  passed &= runSection("memory", memoryChecks);
  passed &= runSection("repeats", repeatChecks);
  passed &= runSection("errors", errorChecks);
  printWorst("16 and 32 bits", worstNarrow);
  printWorst("float64", worstWide);
  std::cout << (passed ? "all checks passed\n" : "CHECKS FAILED\n");
  return passed ? 0 : 1;
}
