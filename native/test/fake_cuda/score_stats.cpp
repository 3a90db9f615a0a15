#include <vector>

#include "operations.h"
#include "row_stats.h"
#include "through_rows.h"

namespace fake_cuda {

Status scoreStats(CollapsarCudaDevice* device, const CollapsarCudaScores* scores, const CollapsarCudaRowLabels* labels,
                  const CollapsarCudaRowStats* out, const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(scores, error));
  COLLAPSAR_FAKE_TRY(checkSize(labels, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("score_stats", device, control, error));
  COLLAPSAR_FAKE_TRY(checkRowStats(device, out, error));
  std::vector<double> values(static_cast<std::size_t>(scores->columns));
  return throughRows(device, scores->data_on_device != 0, scores->rows, scores->columns, scores->dtype, control, error,
                     [&](std::int64_t row) {
                       for (std::int64_t p = 0; p < scores->columns; ++p) {
                         values[static_cast<std::size_t>(p)] =
                             valueAt(scores->data, scores->dtype, row * scores->row_stride + p * scores->column_stride);
                       }
                       statsOfRow(values, row, labels, labels->lengths[row], out);
                     });
}

}  // namespace fake_cuda
