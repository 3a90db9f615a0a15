// The kernels as the C++ compiler sees them.
#include "cuda/scores/short_score_rows.cu"
