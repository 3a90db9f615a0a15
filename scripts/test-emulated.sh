#!/bin/sh
# Runs the engine's C++ tests on processors that this machine is not: arm64 (NEON), an x86-64 without AVX or FMA, and one
# with AVX2 only. bits_test compares its digest there with the one that every machine must give.
#
#   scripts/test-emulated.sh [arm64|nehalem|haswell]...     all of them by default
#
# Needs cmake, ninja and, by name as Debian has them, qemu-user-static and g++-aarch64-linux-gnu. A processor whose tools
# are missing is skipped with a line that says so; the exit status tells of failures only.
set -u
cd "$(dirname "$0")/.."

# What takes minutes where a processor is emulated in software (long double references, rows of a gibibyte), and equal
# bits make redundant.
left_out='^(score_stats|logit_stats|inference|long_rows_thread)_test$'
failed=0

# run NAME EMULATOR COMPILER PROCESSOR: build for the processor, test under the emulator.
run() {
  name=$1 emulator=$2 compiler=$3 processor=$4
  for tool in cmake ninja "${emulator%% *}" "$compiler"; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      echo "skipped: $name ($tool is not installed)"
      return
    fi
  done
  build=build/emulated-$processor
  # Static, because the emulator would otherwise look for the other processor's libraries.
  if cmake -S . -B "$build" -G Ninja -DCOLLAPSAR_TESTS=ON -DCOLLAPSAR_CUDA=OFF -DCOLLAPSAR_CUDA_EMULATION=OFF -DCMAKE_SYSTEM_NAME=Linux \
      -DCMAKE_SYSTEM_PROCESSOR="$processor" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_EXE_LINKER_FLAGS=-static \
      -DCMAKE_CROSSCOMPILING_EMULATOR="$(echo "$emulator" | tr ' ' ';')" >"$build.log" 2>&1 &&
      cmake --build "$build" -- -j 2 >>"$build.log" 2>&1; then
    if COLLAPSAR_TEST_THREADS=2 ctest --test-dir "$build" -E "$left_out" --output-on-failure --no-tests=error; then
      echo "passed: $name"
      return
    fi
  else
    tail -n 40 "$build.log"
  fi
  echo "FAILED: $name"
  failed=1
}

mkdir -p build
[ $# -gt 0 ] || set -- arm64 nehalem haswell
for target in "$@"; do
  case $target in
    arm64) run arm64 qemu-aarch64-static aarch64-linux-gnu-g++ aarch64 ;;
    nehalem) run nehalem 'qemu-x86_64-static -cpu Nehalem' g++ x86_64 ;;
    haswell) run haswell 'qemu-x86_64-static -cpu Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm' g++ x86_64 ;;
    *) echo "unknown processor: $target" >&2; exit 2 ;;
  esac
done
exit $failed
