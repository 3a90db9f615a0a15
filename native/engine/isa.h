// Which instruction set the kernels run on: found once at start, or forced for tests.
#pragma once

namespace collapsar {

enum class Isa { Baseline, Neon, Avx2, Avx512 };

const char* isaName(Isa isa);  // "baseline", "neon", "avx2", "avx512"
bool isaSupported(Isa isa);    // compiled in, and this CPU and OS have it
Isa activeIsa();               // the best supported one, unless forced

// Forces one for the process; false if it is not supported. At first use COLLAPSAR_ISA is read likewise.
bool forceIsa(const char* name);

}  // namespace collapsar
