// A CUDA backend without CUDA, for tests of all that stands around the real one: the ABI of cuda/backend.h over host
// memory, in plain float64 loops. "Device memory" is of limited size and can be shared with other processes; host
// tensors go through it in blocks of rows. Environment variables, read at every call, say what shall go wrong:
//   COLLAPSAR_FAKE_CUDA_FAIL     crash | exit | hang | version | no_driver | driver_too_old | no_device | open | wrong
//   |
//                                lost
//   COLLAPSAR_FAKE_CUDA_DEVICES  how many devices there are (2)
//   COLLAPSAR_FAKE_CUDA_BYTES    memory of each (64 MiB)
//   COLLAPSAR_FAKE_CUDA_ROW_US   microseconds that each row of an operation takes more (0)
//   COLLAPSAR_FAKE_CUDA_TRACE    a file that gets a line a call
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/backend.h"
#include "engine/half.h"

using Status = CollapsarCudaStatus;
using Error = CollapsarCudaError;

struct Allocation {
  void* address;
  std::size_t mapped;
  std::int64_t bytes;
  int file;  // of the memory, to be shared through /proc; -1: another process's
};

struct CollapsarCudaDevice {
  int index;
  std::map<const void*, Allocation> memory;
  std::int64_t used = 0;
  std::vector<std::string> events;  // files that must be there before the memory may be read
};

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string setting(const char* name) {
  const char* const value = std::getenv((std::string("COLLAPSAR_FAKE_CUDA_") + name).c_str());
  return value == nullptr ? "" : value;
}

std::int64_t number(const char* name, std::int64_t otherwise) {
  const std::string value = setting(name);
  return value.empty() ? otherwise : std::stoll(value);
}

bool fails(const char* way) { return setting("FAIL") == way; }
std::int64_t deviceBytes() { return number("BYTES", std::int64_t{64} << 20); }

void trace(const char* call, const CollapsarCudaDevice* device) {
  const std::string path = setting("TRACE");
  if (path.empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (std::FILE* const file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s %d\n", call, device == nullptr ? -1 : device->index);
    std::fclose(file);
  }
}

__attribute__((format(printf, 3, 4))) Status failure(Error* error, Status status, const char* format, ...) {
  *error = {};
  error->code = status;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

#define COLLAPSAR_FAKE_TRY(call) \
  if (const Status status_ = (call); status_ != COLLAPSAR_CUDA_OK) return status_

template <typename Struct>
Status checkSize(const Struct* given, Error* error) {
  if (given->size == sizeof(Struct)) return COLLAPSAR_CUDA_OK;
  return failure(error, COLLAPSAR_CUDA_INVALID, "a struct of %u bytes, expected %zu", given->size, sizeof(Struct));
}

bool isCancelled(const CollapsarCudaControl* control) {
  return control != nullptr && control->cancelled != nullptr && *control->cancelled != 0;
}

void report(const CollapsarCudaControl* control, std::int64_t done, std::int64_t total) {
  if (control != nullptr && control->progress != nullptr) control->progress(control->progress_context, done, total);
}

Status expectAlive(Error* error) {
  if (!fails("lost")) return COLLAPSAR_CUDA_OK;
  return failure(error, COLLAPSAR_CUDA_DEVICE_LOST, "the GPU is lost; restart the process");
}

// What every call that works on the device does first.
Status begin(const char* call, CollapsarCudaDevice* device, const CollapsarCudaControl* control, Error* error) {
  trace(call, device);
  COLLAPSAR_FAKE_TRY(expectAlive(error));
  for (const std::string& event : device->events) {
    while (access(event.c_str(), F_OK) != 0) {
      if (isCancelled(control)) return failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  device->events.clear();
  return COLLAPSAR_CUDA_OK;
}

// --- memory -------------------------------------------------------------------------------------------------------

Status reserve(CollapsarCudaDevice* device, std::int64_t bytes, Error* error) {
  const std::int64_t free = deviceBytes() - device->used;
  if (bytes > free) {
    failure(error, COLLAPSAR_CUDA_OUT_OF_MEMORY, "out of memory: %lld bytes asked for, %lld free",
            static_cast<long long>(bytes), static_cast<long long>(free));
    error->asked_bytes = bytes;
    error->free_bytes = free;
    return COLLAPSAR_CUDA_OUT_OF_MEMORY;
  }
  device->used += bytes;
  return COLLAPSAR_CUDA_OK;
}

// What stands in a handle's 64 bytes.
struct Handle {
  char magic[16];
  std::int64_t process, file, bytes;
};
constexpr char kMagic[16] = "collapsar fake";

void release(CollapsarCudaDevice* device, const Allocation& allocation) {
  munmap(allocation.address, allocation.mapped);
  if (allocation.file < 0) return;
  close(allocation.file);
  device->used -= allocation.bytes;
}

Status allocate(CollapsarCudaDevice* device, std::int64_t bytes, void** pointer, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("alloc", device, nullptr, error));
  *pointer = nullptr;
  if (bytes == 0) return COLLAPSAR_CUDA_OK;
  COLLAPSAR_FAKE_TRY(reserve(device, bytes, error));
  const int file = memfd_create("collapsar-fake-cuda", MFD_CLOEXEC);
  void* address = MAP_FAILED;
  if (file >= 0 && ftruncate(file, bytes) == 0) {
    address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (address == MAP_FAILED) return failure(error, COLLAPSAR_CUDA_FAILED, "no host memory for the fake device");
  // Nobody may rely on zeros.
  std::memset(address, 0xa5, static_cast<std::size_t>(bytes));
  device->memory.emplace(address, Allocation{address, static_cast<std::size_t>(bytes), bytes, file});
  *pointer = address;
  return COLLAPSAR_CUDA_OK;
}

Status deallocate(CollapsarCudaDevice* device, void* pointer, Error* error) {
  trace("free", device);
  if (pointer == nullptr) return COLLAPSAR_CUDA_OK;
  const auto entry = device->memory.find(pointer);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "freed what is not allocated");
  release(device, entry->second);
  device->memory.erase(entry);
  return COLLAPSAR_CUDA_OK;
}

// In pieces, so that a long copy can be cancelled.
Status copy(void* to, const void* from, std::int64_t bytes, const CollapsarCudaControl* control, Error* error) {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t at = 0; at < bytes; at += kPiece) {
    if (isCancelled(control)) return failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
    const std::int64_t piece = std::min(kPiece, bytes - at);
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, static_cast<std::size_t>(piece));
    report(control, at + piece, bytes);
  }
  return COLLAPSAR_CUDA_OK;
}

Status upload(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
              const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("upload", device, control, error));
  return copy(to, from, bytes, control, error);
}

Status download(CollapsarCudaDevice* device, void* to, const void* from, std::int64_t bytes,
                const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("download", device, control, error));
  return copy(to, from, bytes, control, error);
}

Status memoryInfo(CollapsarCudaDevice* device, std::int64_t* free, std::int64_t* total, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("memory_info", device, nullptr, error));
  *total = deviceBytes();
  *free = *total - device->used;
  return COLLAPSAR_CUDA_OK;
}

Status ipcImport(CollapsarCudaDevice* device, CollapsarCudaIpcImport* import, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(import, error));
  COLLAPSAR_FAKE_TRY(begin("ipc_import", device, nullptr, error));
  Handle handle;
  std::memcpy(&handle, import->handle, sizeof handle);
  const bool ours = std::memcmp(handle.magic, kMagic, sizeof kMagic) == 0;
  if (!ours || handle.process == getpid()) {
    return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "%s",
                   ours ? "the handle is of this very process" : "no handle of the fake backend");
  }
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "the process that made the handle has ended");
  struct stat status {};
  fstat(file, &status);
  if (import->offset_bytes + import->bytes > status.st_size) {
    close(file);
    return failure(error, COLLAPSAR_CUDA_BAD_HANDLE, "the storage ends after the allocation");
  }
  const std::size_t mapped = static_cast<std::size_t>(status.st_size);
  void* const base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (base == MAP_FAILED) return failure(error, COLLAPSAR_CUDA_FAILED, "mmap");
  device->memory.emplace(base, Allocation{base, mapped, import->bytes, -1});
  import->base = base;
  import->pointer = static_cast<char*>(base) + import->offset_bytes;
  if (import->event_handle != nullptr) {
    const char* const path = static_cast<const char*>(import->event_handle);
    device->events.emplace_back(path, strnlen(path, COLLAPSAR_CUDA_HANDLE_BYTES));
  }
  return COLLAPSAR_CUDA_OK;
}

Status ipcClose(CollapsarCudaDevice* device, void* base, Error* error) {
  trace("ipc_close", device);
  const auto entry = device->memory.find(base);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "closed what is not open");
  release(device, entry->second);
  device->memory.erase(entry);
  return COLLAPSAR_CUDA_OK;
}

Status ipcExport(CollapsarCudaDevice* device, CollapsarCudaIpcExport* out, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  const auto entry = device->memory.find(out->pointer);
  if (entry == device->memory.end()) return failure(error, COLLAPSAR_CUDA_INVALID, "not from alloc()");
  Handle handle{};
  std::memcpy(handle.magic, kMagic, sizeof kMagic);
  handle.process = getpid();
  handle.file = entry->second.file;
  handle.bytes = entry->second.bytes;
  std::memcpy(out->handle, &handle, sizeof handle);
  out->offset_bytes = 0;
  return COLLAPSAR_CUDA_OK;
}

void ipcExportEnd(CollapsarCudaDevice*, void*) {}

// --- devices ------------------------------------------------------------------------------------------------------

Status deviceCount(std::int32_t* count, Error* error) {
  if (fails("crash")) std::raise(SIGSEGV);
  if (fails("exit")) std::_Exit(0);
  if (fails("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fails("no_driver")) return failure(error, COLLAPSAR_CUDA_NO_DRIVER, "there is no NVIDIA driver; install one");
  if (fails("driver_too_old")) {
    return failure(error, COLLAPSAR_CUDA_DRIVER_TOO_OLD, "the driver runs CUDA 11.0, 13.0 is needed; update it");
  }
  if (fails("no_device")) return failure(error, COLLAPSAR_CUDA_NO_DEVICE, "the driver shows no GPU");
  *count = static_cast<std::int32_t>(number("DEVICES", 2));
  return COLLAPSAR_CUDA_OK;
}

Status deviceInfo(std::int32_t index, CollapsarCudaDeviceInfo* info, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(info, error));
  *info = {};
  info->size = sizeof *info;
  info->index = index;
  std::snprintf(info->name, sizeof info->name, "Fake GPU %d", index);
  std::snprintf(info->pci_id, sizeof info->pci_id, "0000:%02x:00.0", index);
  info->compute_major = 9;
  info->multiprocessors = 132;
  info->supported = 1;
  info->total_bytes = deviceBytes();
  info->free_bytes = -1;
  info->driver_version = info->runtime_version = 13000;
  return COLLAPSAR_CUDA_OK;
}

Status openDevice(std::int32_t index, CollapsarCudaDevice** device, Error* error) {
  if (fails("open")) return failure(error, COLLAPSAR_CUDA_FAILED, "all CUDA-capable devices are busy");
  if (index < 0 || index >= number("DEVICES", 2)) return failure(error, COLLAPSAR_CUDA_BAD_DEVICE, "no such device");
  *device = new CollapsarCudaDevice{};
  (*device)->index = index;
  trace("open", *device);
  return COLLAPSAR_CUDA_OK;
}

void closeDevice(CollapsarCudaDevice* device) {
  if (device == nullptr) return;
  trace(device->memory.empty() ? "close" : "close-with-memory-left", device);
  delete device;
}

// --- operations ---------------------------------------------------------------------------------------------------

double valueAt(const void* data, std::int32_t dtype, std::int64_t index) {
  switch (dtype) {
    case COLLAPSAR_CUDA_FLOAT64:
      return static_cast<const double*>(data)[index];
    case COLLAPSAR_CUDA_FLOAT32:
      return static_cast<const float*>(data)[index];
    case COLLAPSAR_CUDA_FLOAT16:
      return collapsar::float16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
    default:
      return collapsar::bfloat16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
  }
}

std::int64_t sizeOfType(std::int32_t dtype) { return dtype == 0 ? 8 : dtype == 1 ? 4 : 2; }

// Calls `each` for every row; rows of a host tensor are first taken into device memory, as many at a time as half of
// what is free has place for. Polls for cancellation and reports, in elements.
template <typename Each>
Status throughRows(CollapsarCudaDevice* device, bool onDevice, std::int64_t rows, std::int64_t rowElements,
                   std::int32_t dtype, const CollapsarCudaControl* control, Error* error, Each each) {
  const std::int64_t rowBytes = std::max<std::int64_t>(1, rowElements * sizeOfType(dtype));
  const std::int64_t place = std::max(rowBytes, (deviceBytes() - device->used) / 2);
  const std::int64_t block = onDevice ? 64 : std::max<std::int64_t>(1, std::min(rows, place / rowBytes));
  const std::int64_t staging = onDevice ? 0 : block * rowBytes;
  const auto pause = std::chrono::microseconds(number("ROW_US", 0));
  COLLAPSAR_FAKE_TRY(reserve(device, staging, error));
  Status status = COLLAPSAR_CUDA_OK;
  for (std::int64_t first = 0; first < rows && status == COLLAPSAR_CUDA_OK; first += block) {
    const std::int64_t end = std::min(rows, first + block);
    if (!onDevice) trace("block", device);
    for (std::int64_t row = first; row < end; ++row) {
      if (isCancelled(control)) {
        status = failure(error, COLLAPSAR_CUDA_CANCELLED, "cancelled");
        break;
      }
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      each(row);
    }
    report(control, end * rowElements, rows * rowElements);
  }
  device->used -= staging;
  return status;
}

struct Moments {
  double logsumexp, entropy;
  std::int32_t argmax;
};

// Special values as native/engine/logit_stats.h says.
Moments momentsOf(const std::vector<double>& values) {
  Moments moments{-kInfinity, kNaN, values.empty() ? -1 : 0};
  double maximum = -kInfinity;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return {kNaN, kNaN, static_cast<std::int32_t>(i)};
    if (values[i] > maximum) {
      maximum = values[i];
      moments.argmax = static_cast<std::int32_t>(i);
    }
  }
  moments.logsumexp = maximum;
  if (std::isinf(maximum)) return moments;
  double sum = 0, weighted = 0;
  for (const double value : values) {
    const double x = value - maximum, e = std::exp(x);
    sum += e;
    if (e > 0) weighted += e * x;
  }
  moments.logsumexp = maximum + std::log(sum);
  moments.entropy = std::log(sum) - weighted / sum;
  return moments;
}

double meanOf(const std::vector<double>& values, const std::uint8_t* mask, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    if (mask != nullptr && mask[row] == 0) continue;
    sum += values[static_cast<std::size_t>(row)];
    ++count;
  }
  return count == 0 ? kNaN : sum / static_cast<double>(count);
}

// Both kinds of memory are the host's here, so that a result in the wrong one would go unnoticed.
Status checkPlace(const CollapsarCudaDevice* device, std::initializer_list<const void*> fields, bool onDevice,
                  Error* error) {
  for (const void* const field : fields) {
    if (field == nullptr) continue;
    auto entry = device->memory.upper_bound(field);
    bool inside = false;
    if (entry != device->memory.begin()) {
      --entry;
      inside = static_cast<const char*>(field) < static_cast<const char*>(entry->first) + entry->second.mapped;
    }
    if (inside != onDevice) {
      return failure(error, COLLAPSAR_CUDA_INVALID, "a result in memory of %s", onDevice ? "the host" : "the device");
    }
  }
  return COLLAPSAR_CUDA_OK;
}

Status checkRowStats(const CollapsarCudaDevice* device, const CollapsarCudaRowStats* out, Error* error) {
  return checkPlace(device,
                    {out->matched_seq, out->matched_token, out->marginal_seq, out->marginal_token,
                     out->loo_marginal_seq, out->loo_marginal_token, out->posterior_entropy, out->argmax,
                     out->rank_above, out->rank_equal, out->top_columns},
                    out->on_device != 0, error);
}

template <typename T>
void put(T* field, std::int64_t at, T value) {
  if (field != nullptr) field[at] = value;
}

Status logitStats(CollapsarCudaDevice* device, const CollapsarCudaLogits* logits, const CollapsarCudaLogitStats* out,
                  const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(logits, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("logit_stats", device, control, error));
  COLLAPSAR_FAKE_TRY(checkPlace(
      device, {out->logsumexp, out->entropy, out->target_logprob, out->argmax, out->rank_above, out->rank_equal},
      out->on_device != 0, error));
  COLLAPSAR_FAKE_TRY(checkPlace(device, {out->mean_entropy, out->mean_target_logprob}, false, error));
  const std::size_t rows = static_cast<std::size_t>(logits->rows);
  std::vector<double> entropies(rows, kNaN), targets(rows, kNaN), values(static_cast<std::size_t>(logits->columns));
  const auto row = [&](std::int64_t n) {
    Moments moments{kNaN, kNaN, -1};
    double targetLogprob = kNaN;
    std::int32_t above = -1, equal = -1;
    if (logits->mask == nullptr || logits->mask[n] != 0) {
      for (std::int64_t v = 0; v < logits->columns; ++v) {
        values[static_cast<std::size_t>(v)] =
            valueAt(logits->data, logits->dtype, n * logits->row_stride + v * logits->column_stride) /
            logits->temperature;
      }
      moments = momentsOf(values);
      if (logits->targets != nullptr) {
        const double target = values[static_cast<std::size_t>(logits->targets[n])];
        targetLogprob = std::isfinite(moments.logsumexp) ? target - moments.logsumexp : kNaN;
        above = equal = 0;
        for (const double value : values) {
          above += value > target;
          equal += value == target;
        }
      }
    }
    put(out->logsumexp, n, moments.logsumexp);
    put(out->entropy, n, moments.entropy);
    put(out->target_logprob, n, targetLogprob);
    put(out->argmax, n, moments.argmax);
    put(out->rank_above, n, above);
    put(out->rank_equal, n, equal);
    entropies[static_cast<std::size_t>(n)] = moments.entropy;
    targets[static_cast<std::size_t>(n)] = targetLogprob;
  };
  COLLAPSAR_FAKE_TRY(throughRows(device, logits->data_on_device != 0, logits->rows, logits->columns, logits->dtype,
                                 control, error, row));
  for (std::int64_t i = 0; i < logits->sequences; ++i) {
    put(out->mean_entropy, i, meanOf(entropies, logits->mask, logits->begins[i], logits->ends[i]));
    put(out->mean_target_logprob, i, meanOf(targets, logits->mask, logits->begins[i], logits->ends[i]));
  }
  return COLLAPSAR_CUDA_OK;
}

void statsOfRow(const std::vector<double>& scores, std::int64_t row, const CollapsarCudaRowLabels* labels,
                std::int64_t length, const CollapsarCudaRowStats* out) {
  const std::size_t columns = scores.size();
  const std::size_t own = static_cast<std::size_t>(labels->own[row]);
  const double tokens = static_cast<double>(std::max<std::int64_t>(length, 1));
  std::vector<double> perToken(columns), others, othersPerToken;
  for (std::size_t p = 0; p < columns; ++p) {
    perToken[p] = scores[p] / tokens;
    const bool same = labels->signature == nullptr ? p == own : labels->signature[p] == labels->signature[own];
    if (same) continue;
    others.push_back(scores[p]);
    othersPerToken.push_back(perToken[p]);
  }
  const auto marginal = [](const std::vector<double>& values) {
    return values.empty() ? kNaN : momentsOf(values).logsumexp - std::log(static_cast<double>(values.size()));
  };
  const Moments moments = momentsOf(scores);
  std::int32_t above = 0, equal = 0;
  for (const double score : scores) {
    above += score > scores[own];
    equal += score == scores[own];
  }
  put(out->matched_seq, row, scores[own]);
  put(out->matched_token, row, perToken[own]);
  put(out->marginal_seq, row, marginal(scores));
  put(out->marginal_token, row, marginal(perToken));
  put(out->loo_marginal_seq, row, marginal(others));
  put(out->loo_marginal_token, row, marginal(othersPerToken));
  put(out->posterior_entropy, row, moments.entropy);
  put(out->argmax, row, moments.argmax);
  put(out->rank_above, row, above);
  put(out->rank_equal, row, equal);
  std::vector<std::int32_t> order(columns);
  for (std::size_t p = 0; p < columns; ++p) order[p] = static_cast<std::int32_t>(p);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return std::isnan(x) ? !std::isnan(y) : x > y;
  });
  for (std::int32_t k = 0; k < out->top_k; ++k) {
    put(out->top_columns, row * out->top_k + k, order[static_cast<std::size_t>(k)]);
  }
}

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

// The sums of row r under all prompts, in the order of prompts; notes invalid tokens.
void sumsOfRow(const CollapsarCudaTokens* tokens, std::int64_t row, std::vector<double>& sums,
               CollapsarCudaTokenSums* invalid) {
  const std::int64_t start =
      tokens->row_offsets != nullptr ? tokens->row_offsets[row] * tokens->token_stride : row * tokens->row_stride;
  for (std::int64_t p = 0; p < tokens->prompts; ++p) {
    double sum = 0;
    for (std::int64_t t = 0; t < tokens->lengths[row]; ++t) {
      const double value =
          valueAt(tokens->data, tokens->dtype, p * tokens->prompt_stride + start + t * tokens->token_stride);
      sum += value;
      if (!(std::isnan(value) || value == kInfinity)) continue;
      const bool first = invalid->invalid_prompt < 0 || p < invalid->invalid_prompt ||
                         (p == invalid->invalid_prompt && row < invalid->invalid_row);
      if (!first) continue;
      invalid->invalid_prompt = p;
      invalid->invalid_row = row;
      invalid->invalid_token = t;
    }
    sums[static_cast<std::size_t>(p)] = sum;
  }
}

std::int64_t longest(const CollapsarCudaTokens* tokens) {
  return tokens->rows == 0 ? 0 : *std::max_element(tokens->lengths, tokens->lengths + tokens->rows);
}

Status sumTokens(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens, CollapsarCudaTokenSums* out,
                 const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(tokens, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("sum_tokens", device, control, error));
  COLLAPSAR_FAKE_TRY(checkPlace(device, {out->sums}, out->on_device != 0, error));
  out->invalid_prompt = out->invalid_row = out->invalid_token = -1;
  std::vector<double> sums(static_cast<std::size_t>(tokens->prompts));
  return throughRows(device, tokens->data_on_device != 0, tokens->rows, tokens->prompts * longest(tokens),
                     tokens->dtype, control, error, [&](std::int64_t row) {
                       sumsOfRow(tokens, row, sums, out);
                       for (std::int64_t p = 0; p < tokens->prompts; ++p) {
                         const std::int64_t column = out->column_of == nullptr ? p : out->column_of[p];
                         out->sums[row * out->columns + column] =
                             fails("wrong") ? 1 : sums[static_cast<std::size_t>(p)];
                       }
                     });
}

Status tokensToRowStats(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                        const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                        CollapsarCudaTokenSums* given, const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(checkSize(tokens, error));
  COLLAPSAR_FAKE_TRY(checkSize(labels, error));
  COLLAPSAR_FAKE_TRY(checkSize(out, error));
  COLLAPSAR_FAKE_TRY(begin("tokens_to_row_stats", device, control, error));
  COLLAPSAR_FAKE_TRY(checkRowStats(device, out, error));
  if (given != nullptr) COLLAPSAR_FAKE_TRY(checkPlace(device, {given->sums}, given->on_device != 0, error));
  CollapsarCudaTokenSums own{};
  CollapsarCudaTokenSums* const noted = given != nullptr ? given : &own;
  noted->invalid_prompt = noted->invalid_row = noted->invalid_token = -1;
  std::vector<double> sums(static_cast<std::size_t>(tokens->prompts));
  return throughRows(device, tokens->data_on_device != 0, tokens->rows, tokens->prompts * longest(tokens),
                     tokens->dtype, control, error, [&](std::int64_t row) {
                       sumsOfRow(tokens, row, sums, noted);
                       if (given != nullptr) std::copy(sums.begin(), sums.end(), given->sums + row * tokens->prompts);
                       statsOfRow(sums, row, labels,
                                  (labels->lengths != nullptr ? labels->lengths : tokens->lengths)[row], out);
                     });
}

Status readBytes(CollapsarCudaDevice* device, const void* data, std::int64_t bytes, std::uint64_t* sum,
                 const CollapsarCudaControl* control, Error* error) {
  COLLAPSAR_FAKE_TRY(begin("read_bytes", device, control, error));
  const unsigned char* const at = static_cast<const unsigned char*>(data);
  std::int64_t i = 0;
  *sum = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, at + i, sizeof word);
    *sum += word;
  }
  for (; i < bytes; ++i) *sum += at[i];
  return COLLAPSAR_CUDA_OK;
}

constexpr CollapsarCudaBackend kBackend = {
    sizeof(CollapsarCudaBackend),
    COLLAPSAR_CUDA_ABI_VERSION,
    "a fake for tests: no GPU is used",
    deviceCount,
    deviceInfo,
    openDevice,
    closeDevice,
    memoryInfo,
    allocate,
    deallocate,
    upload,
    download,
    ipcImport,
    ipcClose,
    ipcExport,
    ipcExportEnd,
    logitStats,
    scoreStats,
    sumTokens,
    tokensToRowStats,
    readBytes,
};

}  // namespace

const CollapsarCudaBackend* collapsar_cuda_backend(std::uint32_t version) {
  return version == COLLAPSAR_CUDA_ABI_VERSION && !fails("version") ? &kBackend : nullptr;
}
