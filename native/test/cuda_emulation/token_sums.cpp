// The kernels as the C++ compiler sees them.
#include "cuda/token_sums.cu"
