// The kernels as the C++ compiler sees them.
#include "cuda/short_score_rows.cu"
