#include "token_sink_object.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "node/arguments/arguments.h"
#include "node/results/result_value.h"

namespace collapsar {
namespace {

constexpr const char* kNoBlock = "no such block is claimed, or the sink was closed";

// A mark a pair, or null where none are kept.
std::uint8_t* marksOf(Napi::Value given) { return given.IsUndefined() ? nullptr : given.As<Napi::Uint8Array>().Data(); }

}  // namespace

// new NativeTokenSink(prompts: number, lengths: Float64Array, maxBufferBytes: number)
TokenSinkObject::TokenSinkObject(const Napi::CallbackInfo& info) : GuardedObject(info) {
  guarded(info.Env(), [&] { open(info); });
}

void TokenSinkObject::open(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::int64_t prompts = arguments.integer();
  std::vector<std::int64_t> lengths =
      integers64(arguments.next(), "options.lengths", 0, std::numeric_limits<std::int64_t>::max());
  const std::int64_t maxBufferBytes = arguments.integer();
  const __int128 bytes = static_cast<__int128>(prompts) * static_cast<__int128>(lengths.size()) * 8;
  const auto refuse = [&] {
    rejectArgument(info.Env(), "options.prompts",
                   std::to_string(prompts) + " prompts x " + std::to_string(lengths.size()) +
                       " rows are more pairs than memory can be had for: give fewer of them to a step");
  };
  if (bytes > maxBufferBytes) refuse();
  try {
    std::shared_ptr<MemoryBlock> memory = MemoryBlock::allocate(static_cast<std::size_t>(bytes));
    double* const sums = memory->at<double>(0);
    step_.reset(new StepInMemory{std::move(memory), StepTokens(prompts, lengths, sums), nullptr});
  } catch (const std::bad_alloc&) {
    refuse();
  }
}

ClaimedBlock TokenSinkObject::claimed(Napi::Value sink, std::int64_t number) {
  TokenSinkObject* const object = Unwrap(sink.As<Napi::Object>());
  const auto found = object->claimed_.find(number);
  if (found == object->claimed_.end()) throw Napi::Error::New(sink.Env(), kNoBlock);
  return {object->step_, found->second};
}

std::shared_ptr<TokenBlock> TokenSinkObject::takeOut(std::int64_t number) {
  const auto found = claimed_.find(number);
  if (found == claimed_.end()) throw Napi::Error::New(Env(), kNoBlock);
  std::shared_ptr<TokenBlock> block = std::move(found->second);
  claimed_.erase(found);
  return block;
}

// claim(prompts, rows: Int32Array, from, to: number, dtype: 0|1|2|3): number    tokens [from, to) of each row
Napi::Value TokenSinkObject::claim(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto axis = [&](const char* name, std::int64_t extent) {
    return integers32(arguments.next(), name, 0, static_cast<std::int32_t>(extent - 1));
  };
  std::vector<std::int32_t> prompts = axis("prompts", tokens().prompts());
  std::vector<std::int32_t> rows = axis("rows", tokens().rows());
  const std::int64_t from = arguments.integer(), to = arguments.integer();
  const auto dtype = arguments.dtype();
  // First the place to keep it in, so that nothing is claimed that nobody knows of.
  const auto place = claimed_.try_emplace(next_).first;
  try {
    place->second = tokens().claim(std::move(prompts), std::move(rows), {from, to}, dtype);
  } catch (const BlockRefusal& refusal) {
    claimed_.erase(place);
    rejectArgument(info.Env(), refusal.argument, refusal.problem);
  } catch (const std::bad_alloc&) {
    claimed_.erase(place);
    rejectArgument(info.Env(), "block", "not enough memory to note what has come: give whole rows, or fewer at a time");
  }
  return numberOf(info.Env(), next_++);
}

// unclaim(block: number): void
Napi::Value TokenSinkObject::unclaim(const Napi::CallbackInfo& info) {
  tokens().unclaim(*takeOut(Arguments(info).integer()));
  return info.Env().Undefined();
}

// commit(block: number, touched: Uint8Array [P*R] | undefined): void
Napi::Value TokenSinkObject::commit(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  step_->spent = takeOut(arguments.integer());
  tokens().commit(*step_->spent, marksOf(arguments.next()));
  return info.Env().Undefined();
}

// forget(touched: Uint8Array [P*R]): void    while no block is claimed
Napi::Value TokenSinkObject::forget(const Napi::CallbackInfo& info) {
  tokens().forget(marksOf(info[0]));
  return info.Env().Undefined();
}

// firstGiven(prompts, rows: Int32Array): { prompt, row, token: number } | null
Napi::Value TokenSinkObject::firstGiven(const Napi::CallbackInfo& info) {
  const Napi::Int32Array prompts = info[0].As<Napi::Int32Array>(), rows = info[1].As<Napi::Int32Array>();
  for (std::size_t column = 0; column < prompts.ElementLength(); column++) {
    for (std::size_t at = 0; at < rows.ElementLength(); at++) {
      const std::int64_t token = tokens().firstGiven(prompts[column], rows[at]);
      if (token >= 0) return invalidTokenValue(info.Env(), {prompts[column], rows[at], token});
    }
  }
  return info.Env().Null();
}

// missing(prompt: number, rows: Int32Array | undefined): MissingTokens (src/engine/native.ts) | null
Napi::Value TokenSinkObject::missing(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::int64_t prompt = arguments.integer();
  const Napi::Value some = arguments.next();
  std::vector<std::int32_t> rows;
  if (!some.IsUndefined()) rows = integers32(some, "rows", 0, static_cast<std::int32_t>(tokens().rows() - 1));
  const MissingTokens found = tokens().missing(prompt, some.IsUndefined() ? nullptr : &rows);
  if (found.rows == 0) return env.Null();
  return objectOf(env, {{"prompt", numberOf(env, prompt)},
                        {"rows", numberOf(env, found.rows)},
                        {"row", numberOf(env, found.row)},
                        {"from", numberOf(env, found.tokens.from)},
                        {"to", numberOf(env, found.tokens.to)},
                        {"untouched", Napi::Boolean::New(env, found.untouched)}});
}

// held(): HeldTokens
Napi::Value TokenSinkObject::held(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return objectOf(env, {{"pairs", numberOf(env, tokens().begunPairs())},
                        {"tokens", numberOf(env, tokens().waitingTokens())},
                        {"bytes", numberOf(env, tokens().heldBytes())}});
}

// result(): { sums: Float64Array [R, P], firstInvalid: { prompt, row, token: number } | null }    once, at the end
Napi::Value TokenSinkObject::result(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  tokens().markMissing();
  const InvalidTokens& found = tokens().invalid();
  const std::int64_t rows = tokens().rows();
  InvalidToken invalid;
  if (const auto first = found.begin(); first != found.end())
    invalid = {first->first / rows, first->first % rows, first->second};
  return objectOf(env, {{"sums", float64View(bufferOver(env, step_->memory), 0, rows * tokens().prompts())},
                        {"firstInvalid", invalidTokenValue(env, invalid)}});
}

// close(): void    gives the memory back, when no job needs it any more; nothing may be called after this
Napi::Value TokenSinkObject::close(const Napi::CallbackInfo& info) {
  claimed_.clear();
  step_.reset();
  return info.Env().Undefined();
}

Napi::Function TokenSinkObject::define(Napi::Env env) {
  return DefineClass(env, "NativeTokenSink",
                     {method<&TokenSinkObject::claim>("claim"), method<&TokenSinkObject::unclaim>("unclaim"),
                      method<&TokenSinkObject::commit>("commit"), method<&TokenSinkObject::forget>("forget"),
                      method<&TokenSinkObject::firstGiven>("firstGiven"), method<&TokenSinkObject::missing>("missing"),
                      method<&TokenSinkObject::held>("held"), method<&TokenSinkObject::result>("result"),
                      method<&TokenSinkObject::close>("close")});
}

}  // namespace collapsar
