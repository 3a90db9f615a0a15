// The kernels as the C++ compiler sees them.
#include "cuda/pack_rows.cu"
