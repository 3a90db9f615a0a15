#include "score_rows.cuh"
#include "short_score_rows.cuh"

namespace collapsar::cuda {

template void startScoreRows<float>(const ScoreRowsJob&, int, cudaStream_t);
template bool haveShortRows<float>(const ScoreRowsJob&);
template cudaError_t startShortScoreRows<float>(const ScoreRowsJob&, int, cudaStream_t);

}  // namespace collapsar::cuda
