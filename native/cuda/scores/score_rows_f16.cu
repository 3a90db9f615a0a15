#include "score_rows.cuh"
#include "short_score_rows.cuh"

namespace collapsar::cuda {

template void startScoreRows<Float16>(const ScoreRowsJob&, int, cudaStream_t);
template bool haveShortRows<Float16>(const ScoreRowsJob&);
template cudaError_t startShortScoreRows<Float16>(const ScoreRowsJob&, int, cudaStream_t);

}  // namespace collapsar::cuda
