// Engine.textFigures and Engine.phraseShares: a step's texts -> its text figures; phrases -> how much of a step they
// are.
#include <vector>

#include "engine/texts/text_figures.h"
#include "node/arguments/text_rows.h"
#include "node/results/result_value.h"
#include "operations.h"

namespace collapsar {
namespace {

class TextFiguresJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override { return textFigures(rows.rows(), options, figures, pool, control); }

  Napi::Value result(Napi::Env env) override {
    const TextBound& bound = figures.bound;
    // In the order of src/engine/operations/texts/text-rows.ts.
    std::vector<double> numbers = {static_cast<double>(figures.problem),
                                   static_cast<double>(figures.rowsUsed),
                                   static_cast<double>(figures.promptsUsed),
                                   figures.byPrompts ? 1.0 : 0.0,
                                   figures.promptsKnown ? 1.0 : 0.0,
                                   bound.bound,
                                   bound.error,
                                   bound.low,
                                   bound.high,
                                   bound.saturated ? 1.0 : 0.0,
                                   bound.specificity,
                                   figures.split.statistic,
                                   figures.split.pValue,
                                   figures.form.templateShare,
                                   figures.form.siblingNovelty,
                                   figures.form.repetition,
                                   figures.duplicateShare,
                                   figures.duplicateAcrossShare,
                                   static_cast<double>(figures.emptyRows),
                                   figures.meanTokens,
                                   static_cast<double>(figures.leastTokens),
                                   static_cast<double>(figures.mostTokens)};
    numbers.insert(numbers.end(), bound.retrieval, bound.retrieval + kTextRetrievals);
    const Napi::Array phrases = Napi::Array::New(env, figures.form.phrases.size());
    std::uint32_t at = 0;
    for (const TemplatePhrase& phrase : figures.form.phrases) {
      const std::vector<double> ids(phrase.ids.begin(), phrase.ids.end());
      phrases.Set(at++, objectOf(env, {{"text", Napi::String::New(env, phrase.text)},
                                       {"ids", ids.empty() ? env.Undefined() : numbersOf(env, ids)},
                                       {"tokens", numberOf(env, phrase.tokens)},
                                       {"prompts", numberOf(env, phrase.prompts)},
                                       {"share", Napi::Number::New(env, phrase.share)}}));
    }
    return objectOf(env, {{"numbers", numbersOf(env, numbers)},
                          {"phrases", phrases},
                          {"prompts", options.prompts ? promptsOf(env, figures.prompts) : env.Undefined()},
                          {"readings", options.readings > 0 ? readingsOf(env, figures.readings) : env.Undefined()}});
  }

  TextRowsArgument rows;
  TextOptions options{};

 private:
  // numbers: [4, P], in the order of src/engine/operations/texts/text-prompts.ts.
  static Napi::Value promptsOf(Napi::Env env, const TextPrompts& prompts) {
    std::vector<double> numbers(prompts.group.begin(), prompts.group.end());
    numbers.insert(numbers.end(), prompts.rows.begin(), prompts.rows.end());
    for (const auto* values : {&prompts.mi, &prompts.retrieval}) {
      numbers.insert(numbers.end(), values->begin(), values->end());
    }
    const bool hasMatrices = !prompts.posterior.empty();
    return objectOf(env, {{"numbers", numbersOf(env, numbers)},
                          {"posterior", hasMatrices ? bytesOf(env, prompts.posterior) : env.Undefined()},
                          {"nats", hasMatrices ? halvesOf(env, prompts.nats) : env.Undefined()}});
  }

  // In the order of src/engine/operations/texts/row-readings.ts.
  static Napi::Value readingsOf(Napi::Env env, const std::vector<RowReading>& readings) {
    const Napi::Array values = Napi::Array::New(env, readings.size());
    std::uint32_t at = 0;
    for (const RowReading& reading : readings) {
      values.Set(at++, objectOf(env, {{"row", numberOf(env, reading.row)},
                                      {"specificity", Napi::Number::New(env, reading.specificity)},
                                      {"tokens", numberOf(env, reading.tokens)},
                                      {"places", numbersOf(env, reading.places)},
                                      {"nats", numbersOf(env, reading.nats)}}));
    }
    return values;
  }

  TextFigures figures{};
};

class PhraseSharesJob : public Job {
 public:
  Outcome run(ThreadPool& pool) override {
    shares.resize(static_cast<std::size_t>(phrases.count()));
    return phraseSharesOf(rows.rows(), phrases.texts(), shares.data(), pool, control);
  }

  Napi::Value result(Napi::Env env) override { return numbersOf(env, shares); }

  TextRowsArgument rows;
  TextsArgument phrases;

 private:
  std::vector<double> shares;
};

}  // namespace

// textFigures(settle, ...rows (see TextRowsArgument::take), permutations, seed: number, prompts: boolean, readings,
//   readTokens: number): number
std::unique_ptr<Job> textFiguresJob(Arguments& arguments) {
  auto job = std::make_unique<TextFiguresJob>();
  job->rows.take(*job, arguments);
  job->options.permutations = arguments.integer();
  job->options.seed = static_cast<std::uint64_t>(arguments.integer());
  job->options.prompts = arguments.flag();
  job->options.readings = arguments.integer();
  job->options.readTokens = arguments.integer();
  return job;
}

// phraseShares(settle, ...rows, ...phrases (see TextsArgument::take)): number
std::unique_ptr<Job> phraseSharesJob(Arguments& arguments) {
  auto job = std::make_unique<PhraseSharesJob>();
  job->rows.take(*job, arguments);
  job->phrases.take(*job, arguments, "phrases", "phrases");
  return job;
}

}  // namespace collapsar
