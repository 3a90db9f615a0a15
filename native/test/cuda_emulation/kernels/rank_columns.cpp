// The kernels as the C++ compiler sees them.
#include "cuda/scores/rank_columns.cu"
