// The kernels as the C++ compiler sees them.
#include "cuda/scores/score_rows_f16.cu"
