// The kernels as the C++ compiler sees them.
#include "cuda/logit_rows.cu"
