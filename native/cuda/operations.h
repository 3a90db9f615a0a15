// The operations behind the C ABI's table. Arguments are checked here; what goes wrong is thrown as a Failure.
#pragma once

#include "device.h"

namespace collapsar::cuda {

void logitStats(CollapsarCudaDevice& device, const CollapsarCudaLogits& logits, const CollapsarCudaLogitStats& out,
                const CollapsarCudaControl* control);
void scoreStats(CollapsarCudaDevice& device, const CollapsarCudaScores& scores, const CollapsarCudaRowLabels& labels,
                const CollapsarCudaRowStats& out, const CollapsarCudaControl* control);
void sumTokens(CollapsarCudaDevice& device, const CollapsarCudaTokens& tokens, CollapsarCudaTokenSums& out,
               const CollapsarCudaControl* control);
// `sums` may be null.
void tokensToRowStats(CollapsarCudaDevice& device, const CollapsarCudaTokens& tokens,
                      const CollapsarCudaRowLabels& labels, const CollapsarCudaRowStats& out,
                      CollapsarCudaTokenSums* sums, const CollapsarCudaControl* control);
std::uint64_t readBytes(CollapsarCudaDevice& device, const void* data, std::int64_t bytes,
                        const CollapsarCudaControl* control);

void importMemory(CollapsarCudaDevice& device, CollapsarCudaIpcImport& import);
void closeMemory(CollapsarCudaDevice& device, void* base);
void exportMemory(CollapsarCudaDevice& device, CollapsarCudaIpcExport& out);
void endExport(CollapsarCudaDevice& device, void* event);

}  // namespace collapsar::cuda
