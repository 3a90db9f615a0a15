// The kernels as the C++ compiler sees them.
#include "cuda/read_bytes.cu"
