// The backend's table, before each entry of which the settings are read, the call is traced, and it is checked where
// results go: device memory is host memory here, so that a result in the wrong one would go unnoticed.
#define collapsar_cuda_backend unwatchedBackend
#include "cuda/backend.cpp"
#undef collapsar_cuda_backend

#include <cstdio>
#include <initializer_list>
#include <map>
#include <string_view>
#include <tuple>

#include "settings.h"

namespace emulation {
namespace {

using Backend = CollapsarCudaBackend;
using Device = CollapsarCudaDevice;
using Error = CollapsarCudaError;
using Status = CollapsarCudaStatus;

const Backend& unwatched() { return *unwatchedBackend(COLLAPSAR_CUDA_ABI_VERSION); }

void trace(const char* call, int device) {
  const EmulationLock lock;
  if (settings().trace.empty()) return;
  if (std::FILE* const file = std::fopen(settings().trace.c_str(), "a")) {
    std::fprintf(file, "%s %d\n", call, device);
    std::fclose(file);
  }
}

bool arePlaced(std::initializer_list<const void*> fields, bool onDevice) {
  return std::all_of(fields.begin(), fields.end(),
                     [&](const void* field) { return field == nullptr || emulateHoldsMemory(field) == onDevice; });
}
bool isPlaced(const CollapsarCudaLogitStats* out) {
  return arePlaced({out->logsumexp, out->entropy, out->target_logprob, out->argmax, out->rank_above, out->rank_equal},
                   out->on_device != 0) &&
         arePlaced({out->mean_entropy, out->mean_target_logprob}, false);
}
bool isPlaced(const CollapsarCudaRowStats* out) {
  return arePlaced({out->matched_seq, out->matched_token, out->marginal_seq, out->marginal_token, out->loo_marginal_seq,
                    out->loo_marginal_token, out->posterior_entropy, out->argmax, out->rank_above, out->rank_equal,
                    out->hit_rank, out->top_columns},
                   out->on_device != 0);
}
bool isPlaced(CollapsarCudaTokenSums* out) { return out == nullptr || arePlaced({out->sums}, out->on_device != 0); }
template <class Other>
bool isPlaced(const Other&) {
  return true;
}

// What a device was asked for, or has opened, and not been given back. For who holds the EmulationLock.
std::multimap<const void*, const Device*> held;

void giveBack(const void* memory) {
  const EmulationLock lock;
  if (const auto found = held.find(memory); found != held.end()) held.erase(found);
}
void take(const void* memory, const Device* device) {
  const EmulationLock lock;
  if (memory != nullptr) held.emplace(memory, device);
}
bool holdsMemory(const Device* device) {
  const EmulationLock lock;
  return std::any_of(held.begin(), held.end(), [&](const auto& memory) { return memory.second == device; });
}

struct Name {
  char text[32] = {};
  template <std::size_t kSize>
  constexpr Name(const char (&from)[kSize]) {
    std::copy(from, from + kSize, text);
  }
  constexpr bool is(std::string_view other) const { return other == text; }
};

// The entry's function that is called in its place.
template <Name kName, auto kEntry, class... Rest>
constexpr auto watched(Status (*Backend::*)(Device*, Rest...)) {
  return +[](Device* device, Rest... rest) -> Status {
    readSettings();
    trace(kName.text, device->index());
    const std::tuple given(rest...);
    if (!(isPlaced(rest) && ...)) {
      Error* const error = std::get<sizeof...(Rest) - 1>(given);
      *error = {COLLAPSAR_CUDA_INVALID, 0, 0, 0, "results in the memory of the other side"};
      return COLLAPSAR_CUDA_INVALID;
    }
    if constexpr (kName.is("free") || kName.is("ipc_close")) giveBack(std::get<0>(given));
    const Status status = (unwatched().*kEntry)(device, rest...);
    if (status != COLLAPSAR_CUDA_OK) return status;
    if constexpr (kName.is("alloc")) take(*std::get<1>(given), device);
    if constexpr (kName.is("ipc_import")) take(std::get<0>(given)->base, device);
    return status;
  };
}
#define WATCHED(entry) watched<#entry, &Backend::entry>(&Backend::entry)

Status countDevices(std::int32_t* count, Error* error) {
  readSettings();
  return unwatched().device_count(count, error);
}

Status openDevice(std::int32_t index, Device** device, Error* error) {
  readSettings();
  const Status status = unwatched().open(index, device, error);
  if (status == COLLAPSAR_CUDA_OK) trace("open", index);
  return status;
}

void closeDevice(Device* device) {
  if (device == nullptr) return;
  readSettings();
  trace(holdsMemory(device) ? "close-with-memory-left" : "close", device->index());
  unwatched().close(device);
}

const Backend kWatched = [] {
  Backend table = unwatched();
  table.build = "emulated: no GPU is used";
  table.device_count = countDevices;
  table.open = openDevice;
  table.close = closeDevice;
  table.memory_info = WATCHED(memory_info);
  table.alloc = WATCHED(alloc);
  table.free = WATCHED(free);
  table.upload = WATCHED(upload);
  table.download = WATCHED(download);
  table.ipc_import = WATCHED(ipc_import);
  table.ipc_close = WATCHED(ipc_close);
  table.ipc_export = WATCHED(ipc_export);
  table.logit_stats = WATCHED(logit_stats);
  table.score_stats = WATCHED(score_stats);
  table.sum_tokens = WATCHED(sum_tokens);
  table.tokens_to_row_stats = WATCHED(tokens_to_row_stats);
  table.read_bytes = WATCHED(read_bytes);
  return table;
}();

}  // namespace
}  // namespace emulation

extern "C" __attribute__((visibility("default"))) const CollapsarCudaBackend* collapsar_cuda_backend(
    std::uint32_t version) {
  emulation::readSettings();
  return emulation::fails("version") || version != COLLAPSAR_CUDA_ABI_VERSION ? nullptr : &emulation::kWatched;
}
