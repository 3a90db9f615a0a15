// The kernels as the C++ compiler sees them.
#include "cuda/score_rows.cu"
