// Times a CUDA backend on tensors that lie on the device, against a pure read of the same bytes in the same run, by the
// GPU's own clock. One JSON object a line on stdout: {"case", "bytes", "seconds", "read_seconds", "fraction", ...}.
//
//   cuda_timing BACKEND.so [--device N] [--seconds S a case] [--only PREFIX] [--small]
//
// Inputs are random and larger than the cache, or taken in turns so that together they are. `bytes`: what must be read
// and written, labels and results included.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "cuda_device.h"
#include "random_numbers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

struct Options {
  const char* backend = nullptr;
  int device = 0;
  double seconds = 0.5;
  std::string only;
  bool small = false;
} options;

CudaDevice* device = nullptr;

constexpr std::int64_t kCacheBytes = 256 << 20;  // more than any GPU's second-level cache

// Random elements, repeated along the device: making a gigabyte of them would take longer than all timings.
std::vector<unsigned char> randomElements(DType dtype, double mean, double spread, std::uint64_t seed) {
  constexpr std::int64_t kCount = 3 * 1000 * 1000 + 7;
  Numbers numbers(seed);
  Elements elements(dtype, kCount);
  for (std::int64_t i = 0; i < kCount; i++) {
    elements.set(i, mean + spread * 2.4 * (numbers.uniform() + numbers.uniform() + numbers.uniform() - 1.5));
  }
  const auto* const first = static_cast<const unsigned char*>(std::as_const(elements).data());
  return {first, first + kCount * static_cast<std::int64_t>(sizeOf(dtype))};
}

// Device memory full of them.
class Tensor {
 public:
  Tensor(DType dtype, std::int64_t count, double mean, double spread)
      : bytes_(count * static_cast<std::int64_t>(sizeOf(dtype))), memory_(*device, bytes_) {
    const std::vector<unsigned char> some = randomElements(dtype, mean, spread, static_cast<std::uint64_t>(count));
    for (std::int64_t at = 0; at < bytes_; at += static_cast<std::int64_t>(some.size())) {
      const std::int64_t size = std::min(bytes_ - at, static_cast<std::int64_t>(some.size()));
      device->expectOk(
          (*device)->upload(device->get(), memory_.as<char>() + at, some.data(), size, nullptr, &device->error));
    }
  }
  const char* at(std::int64_t byte) const { return memory_.as<char>() + byte; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
  DeviceMemory memory_;
};

struct Times {
  std::vector<double> kernels, walls;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Call(turn, control): turn counts up over all calls, so that inputs can be taken in turns.
using Call = std::function<CollapsarCudaStatus(int, const CollapsarCudaControl*)>;

// An operation, and a read of so many bytes of its input (the tensor has `turns` of them side by side): in turns, so
// that both meet the same state of the device.
std::array<Times, 2> timedBesideRead(const Call& operation, const Tensor& tensor, std::int64_t bytes, int turns) {
  double seconds = 0;
  CollapsarCudaControl control{};
  control.size = sizeof control;
  control.kernel_seconds = &seconds;
  const Call read = [&](int turn, const CollapsarCudaControl* given) {
    std::uint64_t sum;
    const char* const input = tensor.at(turn % turns * (tensor.bytes() / turns));
    return (*device)->read_bytes(device->get(), input, bytes, &sum, given, &device->error);
  };
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  constexpr std::size_t kWarmUps = 3;
  std::array<Times, 2> times;
  int turn = 0;
  Clock::time_point start = Clock::now();
  for (std::size_t round = 0; round < kWarmUps + 5 || (since(start) < options.seconds && round < 2000); round++) {
    if (round == kWarmUps) {
      start = Clock::now();
      times = {};
    }
    for (std::size_t i = 0; i < 2; i++) {
      const Clock::time_point from = Clock::now();
      device->expectOk((i == 0 ? operation : read)(turn++, &control));
      times[i].walls.push_back(since(from));
      times[i].kernels.push_back(seconds);
    }
  }
  return times;
}

// `bytes`: what the operation moves; `inputBytes`: what was read beside it.
void report(const std::string& name, std::int64_t bytes, std::int64_t inputBytes, const std::array<Times, 2>& times) {
  const double ours = median(times[0].kernels);
  const double read = median(times[1].kernels) * static_cast<double>(bytes) / static_cast<double>(inputBytes);
  std::cout << "{\"case\": \"" << name << "\", \"bytes\": " << bytes << ", \"input_bytes\": " << inputBytes
            << ", \"seconds\": " << ours << ", \"wall_seconds\": " << median(times[0].walls)
            << ", \"samples\": " << times[0].kernels.size() << ", \"read_seconds\": " << read
            << ", \"fraction\": " << read / ours << "}\n"
            << std::flush;
}

bool wanted(const std::string& name) { return options.only.empty() || name.rfind(options.only, 0) == 0; }

// Inputs side by side, so many that together they do not fit the cache.
int turnsFor(std::int64_t bytes) {
  return static_cast<int>(std::max<std::int64_t>(1, (kCacheBytes + bytes - 1) / bytes));
}

void timeLogits(const std::string& name, DType dtype, std::int64_t rows, std::int64_t columns, bool likelyTargets) {
  if (!wanted(name)) return;
  const std::int64_t size = static_cast<std::int64_t>(sizeOf(dtype)), each = rows * columns * size;
  const int turns = turnsFor(each);
  const Tensor tensor(dtype, rows * columns * turns, 0, 2.5);
  // A policy's own tokens stand near the top of the vocabulary: the target is the row's best of 1000 columns, or any.
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  Numbers numbers(5);
  for (std::int32_t& target : targets) target = static_cast<std::int32_t>(numbers.below(columns));
  if (likelyTargets) {
    // By way of the backend's own argmax of rows cut short.
    CollapsarCudaLogits given{};
    given.size = sizeof given;
    given.dtype = static_cast<std::int32_t>(dtype);
    given.data = tensor.at(0);
    given.data_on_device = 1;
    given.rows = rows;
    given.columns = std::min<std::int64_t>(columns, 1000);
    given.row_stride = columns;
    given.column_stride = 1;
    given.temperature = 1;
    CollapsarCudaLogitStats out{};
    out.size = sizeof out;
    out.argmax = targets.data();
    device->expectOk((*device)->logit_stats(device->get(), &given, &out, nullptr, &device->error));
  }
  std::vector<double> doubles(static_cast<std::size_t>(rows) * 3);
  std::vector<std::int32_t> integers(static_cast<std::size_t>(rows) * 3);
  CollapsarCudaLogits given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(dtype);
  given.data_on_device = 1;
  given.rows = rows;
  given.columns = columns;
  given.row_stride = columns;
  given.column_stride = 1;
  given.targets = targets.data();
  given.temperature = 1;
  CollapsarCudaLogitStats out{};
  out.size = sizeof out;
  out.logsumexp = doubles.data();
  out.entropy = doubles.data() + rows;
  out.target_logprob = doubles.data() + 2 * rows;
  out.argmax = integers.data();
  out.rank_above = integers.data() + rows;
  out.rank_equal = integers.data() + 2 * rows;
  const Call operation = [&](int turn, const CollapsarCudaControl* control) {
    given.data = tensor.at(turn % turns * each);
    return (*device)->logit_stats(device->get(), &given, &out, control, &device->error);
  };
  report(name, each + rows * (4 + 3 * 8 + 3 * 4), each, timedBesideRead(operation, tensor, each, turns));
}

// Which column is a row's own: on real data, where prompts are told apart, its best.
enum class Own { Best, Any };

void timeScores(const std::string& name, DType dtype, std::int64_t rows, std::int64_t columns, int topK, Own whose) {
  if (!wanted(name)) return;
  const std::int64_t each = rows * columns * static_cast<std::int64_t>(sizeOf(dtype));
  const int turns = turnsFor(each);
  const Tensor tensor(dtype, rows * columns * turns, -150, 12);
  std::vector<std::int32_t> own;
  std::vector<std::int64_t> lengths;
  Numbers numbers(6);
  for (std::int64_t r = 0; r < rows; r++) lengths.push_back(100 + numbers.below(400));
  for (std::int64_t r = 0; r < rows * turns; r++) own.push_back(static_cast<std::int32_t>(numbers.below(columns)));
  topK = static_cast<int>(std::min<std::int64_t>(topK, columns));
  DeviceMemory results(*device, rows * (7 * 8 + (4 + 8) * 4));
  CollapsarCudaRowStats out{};
  out.size = sizeof out;
  out.on_device = 1;
  double* at = results.as<double>();
  for (double** field : {&out.matched_seq, &out.matched_token, &out.marginal_seq, &out.marginal_token,
                         &out.loo_marginal_seq, &out.loo_marginal_token, &out.posterior_entropy}) {
    *field = at;
    at += rows;
  }
  auto* integers = reinterpret_cast<std::int32_t*>(at);
  for (std::int32_t** field : {&out.argmax, &out.rank_above, &out.rank_equal, &out.hit_rank, &out.top_columns}) {
    *field = integers;
    integers += rows;
  }
  out.top_k = topK;
  CollapsarCudaScores given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(dtype);
  given.data_on_device = 1;
  given.rows = rows;
  given.columns = columns;
  given.row_stride = columns;
  given.column_stride = 1;
  const auto run = [&](int turn, const CollapsarCudaRowStats& to, const CollapsarCudaControl* control) {
    given.data = tensor.at(turn * each);
    const CollapsarCudaRowLabels labels{sizeof(CollapsarCudaRowLabels), 0, own.data() + turn * rows, lengths.data(),
                                        nullptr};
    return (*device)->score_stats(device->get(), &given, &labels, &to, control, &device->error);
  };
  for (int turn = 0; turn < turns && whose == Own::Best; turn++) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(rows));
    CollapsarCudaRowStats best{};
    best.size = sizeof best;
    best.argmax = found.data();
    device->expectOk(run(turn, best, nullptr));
    std::copy(found.begin(), found.end(), own.begin() + turn * rows);
  }
  const Call operation = [&](int turn, const CollapsarCudaControl* control) { return run(turn % turns, out, control); };
  report(name, each + rows * (4 + 8 + 7 * 8 + (4 + topK) * 4), each, timedBesideRead(operation, tensor, each, turns));
}

void timeTokens(const std::string& name, DType dtype, std::int64_t prompts, std::int64_t rows, std::int64_t tokens) {
  if (!wanted(name)) return;
  const std::int64_t size = static_cast<std::int64_t>(sizeOf(dtype)), each = prompts * rows * tokens * size;
  const int turns = turnsFor(each / 2);
  const Tensor tensor(dtype, prompts * rows * tokens * turns, -1.2, 0.3);
  // Half full: lengths anywhere between nothing and all.
  std::vector<std::int64_t> lengths;
  Numbers numbers(7);
  std::int64_t valid = 0;
  for (std::int64_t r = 0; r < rows; r++) {
    lengths.push_back(numbers.below(tokens + 1));
    valid += lengths.back() * prompts;
  }
  DeviceMemory sums(*device, rows * prompts * 8);
  CollapsarCudaTokens given{};
  given.size = sizeof given;
  given.dtype = static_cast<std::int32_t>(dtype);
  given.data_on_device = 1;
  given.prompts = prompts;
  given.rows = rows;
  given.prompt_stride = rows * tokens;
  given.row_stride = tokens;
  given.token_stride = 1;
  given.lengths = lengths.data();
  CollapsarCudaTokenSums out{};
  out.size = sizeof out;
  out.on_device = 1;
  out.sums = sums.as<double>();
  out.columns = prompts;
  const Call operation = [&](int turn, const CollapsarCudaControl* control) {
    given.data = tensor.at(turn % turns * each);
    return (*device)->sum_tokens(device->get(), &given, &out, control, &device->error);
  };
  const std::int64_t validBytes = valid * size;
  report(name, validBytes + rows * prompts * 8, validBytes, timedBesideRead(operation, tensor, validBytes, turns));
}

void timeFused(const std::string& name, std::int64_t prompts, std::int64_t rows, std::int64_t tokens) {
  if (!wanted(name)) return;
  const std::int64_t each = prompts * rows * tokens * 2;
  const Tensor tensor(DType::BFloat16, prompts * rows * tokens, -1.2, 0.3);
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> own;
  Numbers numbers(8);
  std::int64_t valid = 0;
  for (std::int64_t r = 0; r < rows; r++) {
    lengths.push_back(numbers.below(tokens + 1));
    own.push_back(static_cast<std::int32_t>(numbers.below(prompts)));
    valid += lengths.back() * prompts;
  }
  DeviceMemory results(*device, rows * 2 * 8);
  CollapsarCudaTokens given{};
  given.size = sizeof given;
  given.dtype = COLLAPSAR_CUDA_BFLOAT16;
  given.data = tensor.at(0);
  given.data_on_device = 1;
  given.prompts = prompts;
  given.rows = rows;
  given.prompt_stride = rows * tokens;
  given.row_stride = tokens;
  given.token_stride = 1;
  given.lengths = lengths.data();
  CollapsarCudaRowStats out{};
  out.size = sizeof out;
  out.on_device = 1;
  out.marginal_seq = results.as<double>();
  out.marginal_token = results.as<double>() + rows;
  const CollapsarCudaRowLabels labels{sizeof(CollapsarCudaRowLabels), 0, own.data(), lengths.data(), nullptr};
  const Call operation = [&](int, const CollapsarCudaControl* control) {
    return (*device)->tokens_to_row_stats(device->get(), &given, &labels, &out, nullptr, control, &device->error);
  };
  report(name, valid * 2 + rows * 28, each / 2, timedBesideRead(operation, tensor, each / 2, 1));
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    const std::string argument = arguments[i];
    const char* const next = i + 1 < count ? arguments[i + 1] : "";
    if (argument == "--small") {
      options.small = true;
    } else if (argument == "--device" || argument == "--seconds" || argument == "--only") {
      if (argument == "--device") options.device = std::atoi(next);
      if (argument == "--seconds") options.seconds = std::atof(next);
      if (argument == "--only") options.only = next;
      i++;
    } else {
      require(options.backend == nullptr, "unknown argument " + argument);
      options.backend = arguments[i];
    }
  }
  require(options.backend != nullptr,
          "no backend: cuda_timing BACKEND.so [--device N] [--seconds S] [--only PREFIX] [--small]");
  CudaDevice opened(options.backend, options.device);
  device = &opened;
  if (options.small) {  // that it runs at all
    timeLogits("logits bf16 6x5000", DType::BFloat16, 6, 5000, true);
    timeScores("scores f32 40x64 top 8", DType::Float32, 40, 64, 8, Own::Best);
    timeScores("scores f32 40x64", DType::Float32, 40, 64, 0, Own::Any);
    timeTokens("tokens bf16 [3,20,64]", DType::BFloat16, 3, 20, 64);
    timeFused("fused bf16 [3,20,64]", 3, 20, 64);
    return 0;
  }
  timeLogits("logits bf16 8192x151936", DType::BFloat16, 8192, 151936, true);
  timeLogits("logits bf16 8192x151936 any target", DType::BFloat16, 8192, 151936, false);
  timeLogits("logits fp16 8192x151936", DType::Float16, 8192, 151936, true);
  timeLogits("logits fp32 4096x151936", DType::Float32, 4096, 151936, true);
  timeLogits("logits fp64 1024x151936", DType::Float64, 1024, 151936, true);
  timeLogits("logits bf16 32x1048576", DType::BFloat16, 32, 1 << 20, true);  // 64 MB: fewer rows than multiprocessors
  timeLogits("logits bf16 100x500000", DType::BFloat16, 100, 500000, true);
  timeLogits("logits bf16 65536x1024", DType::BFloat16, 65536, 1024, true);
  for (const int topK : {0, 8}) {
    const std::string top = topK == 0 ? "" : " top 8";
    timeScores("scores f32 65536x4096" + top, DType::Float32, 65536, 4096, topK, Own::Best);
    timeScores("scores f32 8192x65536" + top, DType::Float32, 8192, 65536, topK, Own::Best);
    // A second round, nearly empty.
    timeScores("scores f32 2200x65536" + top, DType::Float32, 2200, 65536, topK, Own::Best);
    timeScores("scores f32 262144x1024" + top, DType::Float32, 262144, 1024, topK, Own::Best);
    timeScores("scores f32 1048576x256" + top, DType::Float32, 1048576, 256, topK, Own::Best);
    timeScores("scores f32 1048576x64" + top, DType::Float32, 1048576, 64, topK, Own::Best);
    timeScores("scores f32 1048576x16" + top, DType::Float32, 1048576, 16, topK, Own::Best);
    timeScores("scores f32 16x1048576" + top, DType::Float32, 16, 1 << 20, topK, Own::Best);
    timeScores("scores bf16 65536x4096" + top, DType::BFloat16, 65536, 4096, topK, Own::Best);
    timeScores("scores f64 65536x4096" + top, DType::Float64, 65536, 4096, topK, Own::Best);
    timeScores("scores f64 1048576x256" + top, DType::Float64, 1048576, 256, topK, Own::Best);
  }
  timeScores("scores f32 65536x4096 any own", DType::Float32, 65536, 4096, 0, Own::Any);
  timeScores("scores f32 1048576x256 any own", DType::Float32, 1048576, 256, 0, Own::Any);
  timeScores("scores f32 1048576x256 top 1", DType::Float32, 1048576, 256, 1, Own::Best);
  timeScores("scores f64 1048576x64", DType::Float64, 1048576, 64, 0, Own::Best);
  timeTokens("tokens bf16 [64,2048,4096]", DType::BFloat16, 64, 2048, 4096);
  timeTokens("tokens f32 [64,2048,1024]", DType::Float32, 64, 2048, 1024);
  timeTokens("tokens bf16 [256,4096,128]", DType::BFloat16, 256, 4096, 128);
  timeFused("fused bf16 [64,2048,4096]", 64, 2048, 4096);
  return 0;
}
