// The operations of the ABI, each in a file of its name.
#pragma once

#include <cstdint>

#include "device.h"

namespace fake_cuda {

Status logitStats(CollapsarCudaDevice* device, const CollapsarCudaLogits* logits, const CollapsarCudaLogitStats* out,
                  const CollapsarCudaControl* control, Error* error);
Status scoreStats(CollapsarCudaDevice* device, const CollapsarCudaScores* scores, const CollapsarCudaRowLabels* labels,
                  const CollapsarCudaRowStats* out, const CollapsarCudaControl* control, Error* error);
Status sumTokens(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens, CollapsarCudaTokenSums* out,
                 const CollapsarCudaControl* control, Error* error);
Status tokensToRowStats(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                        const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                        CollapsarCudaTokenSums* given, const CollapsarCudaControl* control, Error* error);
Status readBytes(CollapsarCudaDevice* device, const void* data, std::int64_t bytes, std::uint64_t* sum,
                 const CollapsarCudaControl* control, Error* error);

}  // namespace fake_cuda
