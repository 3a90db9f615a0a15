// The kernels as the C++ compiler sees them.
#include "cuda/logits/logit_rows.cu"
