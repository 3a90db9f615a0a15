// The kernels as the C++ compiler sees them.
#include "cuda/scores/top_columns.cu"
