// The kernels as the C++ compiler sees them.
#include "cuda/tokens/token_sums.cu"
