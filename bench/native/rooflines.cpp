// The rooflines as a Node addon of its own (bench/suite/roofline.mjs): what memory, files and arithmetic allow with
// threads as the engine has them. A call returns when its work is done, with the seconds that it took.
#include <chrono>
#include <memory>

#include "multiply_adds.h"
#include "napi.h"
#include "read_bytes.h"
#include "read_file.h"
#include "touch_lines.h"

namespace collapsar {
namespace {

std::int64_t integer(const Napi::Value& value) { return value.As<Napi::Number>().Int64Value(); }

// What `work` gives, and { seconds } that it took.
template <class Work>
auto timed(Napi::Object& out, Work work) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  out.Set("seconds", took.count());
  return result;
}

// The memory of a typed array, which has at least this many bytes.
const unsigned char* memoryOf(const Napi::Value& value, std::int64_t bytes) {
  const auto array = value.As<Napi::TypedArray>();
  if (bytes < 0 || static_cast<std::size_t>(bytes) > array.ByteLength()) {
    throw Napi::RangeError::New(value.Env(), "data: too short for what shall be read of it");
  }
  return static_cast<const unsigned char*>(array.ArrayBuffer().Data()) + array.ByteOffset();
}

std::vector<std::int64_t> integersOf(const Napi::Value& value) {
  const auto array = value.As<Napi::Float64Array>();
  return {array.Data(), array.Data() + array.ElementLength()};
}

class Rooflines : public Napi::ObjectWrap<Rooflines> {
 public:
  // new Rooflines(threads: number)
  explicit Rooflines(const Napi::CallbackInfo& info)
      : ObjectWrap(info), pool_(std::make_unique<ThreadPool>(static_cast<int>(integer(info[0])))) {}

  static Napi::Function define(Napi::Env env) {
    return DefineClass(
        env, "Rooflines",
        {InstanceMethod<&Rooflines::readBytesOf>("readBytes"), InstanceMethod<&Rooflines::readFileOf>("readFile"),
         InstanceMethod<&Rooflines::touchLinesOf>("touchLines"),
         InstanceMethod<&Rooflines::multiplyAddsOf>("multiplyAdds")});
  }

 private:
  // readBytes(data: TypedArray, bytes, prefetchBytes: number): { seconds: number, sum: bigint }
  Napi::Value readBytesOf(const Napi::CallbackInfo& info) {
    const std::int64_t bytes = integer(info[1]), prefetchBytes = integer(info[2]);
    const unsigned char* const data = memoryOf(info[0], bytes);
    Napi::Object out = Napi::Object::New(info.Env());
    const std::uint64_t sum =
        timed(out, [&] { return readBytes(data, static_cast<std::size_t>(bytes), prefetchBytes, *pool_); });
    out.Set("sum", Napi::BigInt::New(info.Env(), sum));
    return out;
  }

  // readFile(fd, offset, bytes, pieceBytes: number): { seconds: number, failure: { error, offset } | null }
  // pieceBytes: up to 256 KiB; 0: as sumFileTokens has them
  Napi::Value readFileOf(const Napi::CallbackInfo& info) {
    const std::int64_t given = integer(info[3]), pieceBytes = given == 0 ? kPieceBytes : given;
    Napi::Object out = Napi::Object::New(info.Env()), failed = Napi::Object::New(info.Env());
    const ReadFailure failure = timed(out, [&] {
      return readFile(static_cast<int>(integer(info[0])), integer(info[1]), integer(info[2]), pieceBytes, *pool_);
    });
    failed.Set("error", failure.error);
    failed.Set("offset", static_cast<double>(failure.offset));
    out.Set("failure", failure.offset < 0 ? info.Env().Null() : failed);
    return out;
  }

  // touchLines(data: TypedArray, elementBytes, prompts, promptStride: number, offsets, lengths: Float64Array):
  //   { seconds: number, sum: bigint }
  Napi::Value touchLinesOf(const Napi::CallbackInfo& info) {
    TokenPlaces tokens{nullptr,          integer(info[1]),    integer(info[2]),
                       integer(info[3]), integersOf(info[4]), integersOf(info[5])};
    std::int64_t reach = 0;
    for (std::size_t row = 0; row < tokens.lengths.size(); row++) {
      reach = std::max(reach, tokens.offsets.at(row) + tokens.lengths[row]);
    }
    if (tokens.prompts > 0) reach += (tokens.prompts - 1) * tokens.promptStride;
    tokens.data = memoryOf(info[0], reach * tokens.elementBytes);
    Napi::Object out = Napi::Object::New(info.Env());
    const std::uint64_t sum = timed(out, [&] { return touchLines(tokens, *pool_); });
    out.Set("sum", Napi::BigInt::New(info.Env(), sum));
    return out;
  }

  // multiplyAdds(steps: number): { seconds, count, sum: number }    on each thread; count: of lanes, over all
  Napi::Value multiplyAddsOf(const Napi::CallbackInfo& info) {
    Napi::Object out = Napi::Object::New(info.Env());
    const MultiplyAdds done = timed(out, [&] { return multiplyAdds(integer(info[0]), *pool_); });
    out.Set("count", static_cast<double>(done.count));
    out.Set("sum", done.sum);
    return out;
  }

  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace

static Napi::Object rooflinesInitialize(Napi::Env env, Napi::Object exports) {
  exports.Set("Rooflines", Rooflines::define(env));
  return exports;
}
NODE_API_MODULE(rooflines, rooflinesInitialize)

}  // namespace collapsar
