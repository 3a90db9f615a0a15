// Engine.inferPairs: some of a step's pairs with their scores -> its figures with intervals and bounds.
#include <string>
#include <vector>

#include "engine/inference/sampled/infer_pairs.h"
#include "node/arguments/row_labels.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class InferPairsJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    input.rows = static_cast<std::int64_t>(labels.own.size());
    input.columns = static_cast<std::int64_t>(labels.signatures.size());
    std::vector<std::int32_t> rowOf, signatureOf;
    rowOf.reserve(static_cast<std::size_t>(input.pairs));
    signatureOf.reserve(static_cast<std::size_t>(input.pairs));
    for (std::int64_t i = 0; i < input.pairs; i++) {
      rowOf.push_back(entry(rows, i, input.rows, "pairs.rows"));
      const std::int32_t column = entry(columns, i, input.columns, "pairs.columns");
      signatureOf.push_back(labels.signatures[static_cast<std::size_t>(column)]);
    }
    input.row = rowOf.data();
    input.signature = signatureOf.data();
    input.own = labels.own.data();
    input.length = labels.lengths.data();
    input.columnSignature = labels.signatures.data();
    input.columnTurn = turns.empty() ? nullptr : turns.data();
    const Outcome outcome = inferPairs(input, inference, pool, control);
    if (outcome == Outcome::Done && inference.wrongRow >= 0) {
      throw ArgumentProblem{"pairs", "row " + std::to_string(inference.wrongRow) +
                                         " needs exactly one pair with its own prompt and at least one of each kind of "
                                         "negatives, none twice; a row of length 0 has none"};
    }
    return outcome;
  }

  Napi::Value result(Napi::Env env) override {
    // In the order of src/engine/operations/infer-pairs.ts.
    std::vector<double> numbers{static_cast<double>(inference.used), inference.complete ? 1.0 : 0.0,
                                inference.describesSampling ? 1.0 : 0.0, inference.matchedSeq, inference.matchedToken};
    const auto add = [&numbers](const Interval& of) { numbers.insert(numbers.end(), {of.low, of.high, of.error}); };
    for (const SampledFigure& figure : inference.figures) {
      numbers.push_back(figure.estimate);
      add(figure.batch);
      add(figure.population);
      numbers.insert(numbers.end(), {figure.drawVariance, figure.biasBelow, figure.biasAbove});
    }
    for (int i = 0; i < kBestCounts; i++) {
      numbers.insert(numbers.end(), {inference.bestAtLeast[i], inference.bestAtMost[i]});
    }
    for (int i = 0; i < kBestCounts; i++) {
      numbers.push_back(inference.bestOf[i]);
      add(inference.bestOfBatch[i]);
    }
    for (const auto* left : {&inference.nonFinite, &inference.placeholders}) {
      numbers.push_back(static_cast<double>(left->size()));
      numbers.insert(numbers.end(), left->begin(), left->end());
    }
    return numbersOf(env, numbers);
  }

  SampledPairs input{};
  RowLabels labels;
  std::vector<std::int64_t> turns;
  const std::int32_t *rows = nullptr, *columns = nullptr;

 private:
  // Read once: shared memory may change meanwhile.
  static std::int32_t entry(const std::int32_t* values, std::int64_t i, std::int64_t end, const char* name) {
    const std::int32_t value = static_cast<const volatile std::int32_t*>(values)[i];
    if (value >= 0 && value < end) return value;
    throw ArgumentProblem{name, "entry " + std::to_string(i) + " is " + std::to_string(value) + ", expected 0 to " +
                                    std::to_string(end - 1)};
  }

  SampledInference inference{};
};

}  // namespace

// inferPairs(settle, pairs: number, rows: Int32Array, protected: boolean, columns: Int32Array, protected: boolean,
//            sums: Float64Array, protected: boolean, rowCount: number, columnCount: number,
//            own, lengths: IntegerArray, signatures: IntegerArray, turns: IntegerArray | undefined,
//            confidence: number): number
std::unique_ptr<Job> inferPairsJob(Arguments& arguments) {
  const Napi::Env env = arguments.env();
  auto job = std::make_unique<InferPairsJob>();
  const std::int64_t pairs = job->input.pairs = arguments.integer();
  const Napi::Value rows = arguments.next();
  job->rows = holdInt32(*job, rows, "pairs.rows", pairs, arguments.flag());
  const Napi::Value columns = arguments.next();
  job->columns = holdInt32(*job, columns, "pairs.columns", pairs, arguments.flag());
  const Napi::Value sums = arguments.next();
  job->input.sum =
      static_cast<const double*>(holdTensor(*job, sums, "pairs.sums", DType::Float64, {{pairs, 1}}, arguments.flag()));
  const std::int64_t rowCount = arguments.integer(), columnCount = arguments.integer();
  expectMatrixShape(env, "options.signatures", rowCount, columnCount);
  job->labels = RowLabels::take(arguments, "options.", rowCount, columnCount);
  const Napi::Value turns = arguments.next();
  if (!turns.IsUndefined()) {
    job->turns = integers64(turns, "options.turns", 0, std::int64_t{1} << 53);
    expectCount(env, "options.turns", job->turns.size(), columnCount, "column");
  }
  job->input.confidence = arguments.next().As<Napi::Number>().DoubleValue();
  return job;
}

}  // namespace collapsar
