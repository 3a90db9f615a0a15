// The kernels as the C++ compiler sees them.
#include "cuda/rows/pack_rows.cu"
