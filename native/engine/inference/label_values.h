// One row of cross-scores -> what the row's figures would be under every label (own column) it might have had, how
// likely each label is given the row, and how the figures change when a column is left out.
#pragma once

#include <vector>

#include "engine/best_columns.h"
#include "engine/simd/kernel_table.h"
#include "engine/vector_width.h"
#include "inference.h"
#include "step_columns.h"

namespace collapsar {

constexpr int kMiFigures = 4;   // kMiSeq .. kMiToken: real-valued
constexpr int kHitFigures = 4;  // kRetrieval1 .. kRetrieval8: hit or miss
constexpr std::uint8_t kNoHit = kHitFigures;

// What a row's leave-one-out values under all labels are made of, beside its scores.
struct LooTerms {
  double top, total;    // the largest score; the sum of exp(score - top)
  double heavyLogRest;  // ln of the sum without the columns of `heavy`, summed anew
  std::int32_t heavy;   // the signature that has more than half of the total; -1 if none does
};

constexpr int kTopColumns = 8;  // of retrieval@8

// levels: [columns] by signature, of which the row's best columns set theirs to the first of top 1, 2, 4, 8 that holds
// them. All others are kNoHit.
inline void setHitLevels(const std::int32_t* topColumns, int count, const StepColumns& columns, std::uint8_t* levels) {
  for (int i = 0; i < count; i++) {
    std::uint8_t& first = levels[columns.signature[static_cast<std::size_t>(topColumns[i])]];
    if (first == kNoHit) first = i < 1 ? 0 : i < 2 ? 1 : i < 4 ? 2 : 3;
  }
}

// One worker's scratch: every vector [columns].
class LabelValues {
 public:
  LabelValues(const InferenceInput& input, const StepColumns& columns);

  // Fills everything below for row r.
  void compute(std::int64_t r);

  // P(label = p | the row): n_p exp(S_p) normalised, n_p the rows of prompt p. Exact if rows were sampled from the
  // distributions that the scores are log-probs of. `weightRest` = 1 - weight without cancellation.
  std::vector<double> weight, weightRest;
  std::int64_t heavy = -1;                // the column with more than half of the weight, if there is one
  std::vector<double> value[kMiFigures];  // the figure's row value under label p; of no meaning where weight = 0
  std::vector<std::uint8_t> level;        // the first of top 1, 2, 4, 8 that holds p's signature; kNoHit if none does
  // Leaving column j out adds this to a row's value, whatever its label (the marginal's change); NaN if columns < 2.
  std::vector<double> dropSeq, dropToken;
  std::vector<double> dropLoo;                         // the same for the leave-one-out value under the row's own label
  double perLength = 1;                                // 1 / max(length, 1)
  double scoreScale = 0;                               // largest of ln P and any finite |S|
  LooTerms loo{};                                      // of value[kMiSeqLoo]
  double highest = 0;                                  // the largest score
  const double* terms() const { return exp_.data(); }  // [columns]: exp(score - highest)
  // The top 1 << hit of the columns other than j, written to `out` (at most 8) and counted; -1 if j is not in the row's
  // top 1 << hit, which then stays as it is.
  int topWithout(std::int64_t j, int hit, std::int32_t* out) const;

  // The best columns, at most kTopColumns, best first.
  const std::int32_t* topColumns() const { return best_.columns(); }
  int topColumnCount() const { return best_.count() < kTopColumns ? best_.count() : kTopColumns; }
  // The same and, if there is one, the column that follows them.
  struct TopColumn {
    std::int32_t column;
    int position;  // among the best, from 0
  };
  TopColumn top[kTopColumns + 1];  // by rising column
  int topCount = 0;

 private:
  void computeRow(std::int64_t r);
  void computeRowAvx2(std::int64_t r);
  void computeRowAvx512(std::int64_t r);
  void computeBody(std::int64_t r);

  // What the parts of computeBody(), in its order, share of the row at hand.
  struct Row {
    const double* scores;
    std::int32_t own;
    double divisor;     // max(length, 1)
    double top;         // the largest score
    std::int64_t best;  // its column
    double total;       // of exp(score - top)
    double logRatio;    // ln((columns - 1) / columns)
  };
  Row beginRow(std::int64_t r);
  void plainValues(std::int64_t r, const Row& row);
  void looValues(const Row& row);
  void dropFromLoo(const Row& row);
  void labelPosterior(const Row& row);
  void dropTokens(const Row& row);
  using Best = BestColumns<double, kTopColumns + 1, false>;  // with the one that follows the top
  static Best bestOf(const double* scores, std::int64_t columns);
  void findTop(std::int64_t r);
  template <class Keep>
  double logSumOver(const double* scores, double reference, double divisor, Keep keep);
  void dropColumns(const double* scores, std::int64_t best, double divisor, const double* terms, double total,
                   double logRatio, double* drop);

  const InferenceInput& input_;
  const StepColumns& columns_;
  const KernelTable& kernels_;
  // All as long as whole vectors: what the kernels write beyond the columns has no meaning.
  std::vector<double> exp_, other_, logRest_, sigSum_, argument_, term_;
  std::vector<std::uint8_t> sigLevel_, topPosition_;
  Best best_;
};

}  // namespace collapsar
