#include "score_rows.cuh"
#include "short_score_rows.cuh"

namespace collapsar::cuda {

template void startScoreRows<double>(const ScoreRowsJob&, int, cudaStream_t);
template bool haveShortRows<double>(const ScoreRowsJob&);
template cudaError_t startShortScoreRows<double>(const ScoreRowsJob&, int, cudaStream_t);

}  // namespace collapsar::cuda
