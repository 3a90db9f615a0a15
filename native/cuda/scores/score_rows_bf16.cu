#include "score_rows.cuh"
#include "short_score_rows.cuh"

namespace collapsar::cuda {

template void startScoreRows<BFloat16>(const ScoreRowsJob&, int, cudaStream_t);
template bool haveShortRows<BFloat16>(const ScoreRowsJob&);
template cudaError_t startShortScoreRows<BFloat16>(const ScoreRowsJob&, int, cudaStream_t);

}  // namespace collapsar::cuda
