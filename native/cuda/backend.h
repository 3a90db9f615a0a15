// The C ABI between the addon and the CUDA backend, collapsar_cuda.so. Plain C: either side may be built by another
// compiler, and neither needs the other to load.
//
// How to call it:
//  - dlsym "collapsar_cuda_backend" and call it with COLLAPSAR_CUDA_ABI_VERSION; null means another version.
//  - Every struct that the caller fills starts with its own size. An unknown size is refused (COLLAPSAR_CUDA_INVALID):
//    set the rest to zero, then what is needed.
//  - A CollapsarCudaError* is never null, and written only if the status is not COLLAPSAR_CUDA_OK.
//  - Calls block until results are in place. A device is used by one thread at a time, not always the same.
//  - After _OUT_OF_MEMORY, _CANCELLED, _INVALID and _BAD_HANDLE the device stays usable. After _DEVICE_LOST only
//    close(), free() and ipc_close() may be called.
// Results, special values and ties: native/engine/{logit_stats,score_stats,tokens/sum_tokens}.h. They agree with the
// CPU's to the accuracy gates, indices and counts exactly, and one kind of GPU always gives the same bits.
#ifndef COLLAPSAR_CUDA_BACKEND_H
#define COLLAPSAR_CUDA_BACKEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLLAPSAR_CUDA_ABI_VERSION 1u

typedef enum CollapsarCudaStatus {
  COLLAPSAR_CUDA_OK = 0,
  COLLAPSAR_CUDA_NO_DRIVER = 1,
  COLLAPSAR_CUDA_DRIVER_TOO_OLD = 2,
  COLLAPSAR_CUDA_NO_DEVICE = 3,      // a driver, but no device that it shows
  COLLAPSAR_CUDA_BAD_DEVICE = 4,     // no device of this number, or one that there are no kernels for
  COLLAPSAR_CUDA_OUT_OF_MEMORY = 5,  // asked_bytes and free_bytes are set
  COLLAPSAR_CUDA_BAD_HANDLE = 6,
  COLLAPSAR_CUDA_DEVICE_LOST = 7,  // reset, removed, or a kernel of any library in this process broke the context
  COLLAPSAR_CUDA_CANCELLED = 8,
  COLLAPSAR_CUDA_INVALID = 9,  // an argument; the message names it
  COLLAPSAR_CUDA_FAILED = 10   // anything else; the message has the driver's words
} CollapsarCudaStatus;

#define COLLAPSAR_CUDA_MESSAGE_BYTES 512

typedef struct CollapsarCudaError {
  int32_t code;                                // CollapsarCudaStatus
  int32_t cuda_error;                          // cudaError_t, 0 if the error is not the driver's
  int64_t asked_bytes;                         // out of memory: what was asked for ...
  int64_t free_bytes;                          // ... and what was free; else 0
  char message[COLLAPSAR_CUDA_MESSAGE_BYTES];  // what happened and what to do next; one line, ends with 0
} CollapsarCudaError;

// One open GPU: a stream, staging memory, workspace.
typedef struct CollapsarCudaDevice CollapsarCudaDevice;

#define COLLAPSAR_CUDA_NAME_BYTES 256
#define COLLAPSAR_CUDA_PCI_BYTES 32

typedef struct CollapsarCudaDeviceInfo {
  uint32_t size;
  int32_t index;
  char name[COLLAPSAR_CUDA_NAME_BYTES];
  char pci_id[COLLAPSAR_CUDA_PCI_BYTES];  // "0000:1b:00.0"
  int32_t compute_major, compute_minor;
  int32_t multiprocessors;
  int32_t supported;  // 1: there are kernels for it
  int64_t total_bytes;
  int64_t free_bytes;  // -1 where it is not known: asking takes a context, so only device_info of an open device says
  int32_t driver_version, runtime_version;  // 13000 is 13.0
} CollapsarCudaDeviceInfo;

// Element types, as native/engine/dtype.h has them.
typedef enum CollapsarCudaDType {
  COLLAPSAR_CUDA_FLOAT64 = 0,
  COLLAPSAR_CUDA_FLOAT32 = 1,
  COLLAPSAR_CUDA_FLOAT16 = 2,
  COLLAPSAR_CUDA_BFLOAT16 = 3
} CollapsarCudaDType;

// How the caller's other threads stop a call and see how far it is. Any pointer may be null; the whole struct, too.
typedef struct CollapsarCudaControl {
  uint32_t size;
  uint32_t reserved;
  // Polled between blocks (a few milliseconds of work); not 0: the call ends with COLLAPSAR_CUDA_CANCELLED, and its
  // results are then undefined. Other threads write it while the call runs.
  const volatile int32_t* cancelled;
  // Called on the calling thread; `done` rises to `total`, both in input elements (bytes for copies and read_bytes).
  void (*progress)(void* context, int64_t done, int64_t total);
  void* progress_context;
  // Out: seconds of kernels by the GPU's clock, copies not counted. Asking costs a few microseconds.
  double* kernel_seconds;
} CollapsarCudaControl;

// Tensors. `data` is a device pointer (alloc, ipc_import, or another library's) if data_on_device is not 0, else host
// memory. Strides are in elements and may be 0 or negative; the caller has checked the bounds. Host tensors may be
// larger than the device. Arrays of labels (targets, mask, own, lengths, ...) are host memory.

typedef struct CollapsarCudaLogits {
  uint32_t size;
  int32_t dtype;
  const void* data;  // element (n, v) at data[n*row_stride + v*column_stride]
  int32_t data_on_device;
  int32_t reserved;
  int64_t rows, columns;  // columns <= INT32_MAX
  int64_t row_stride, column_stride;
  const int32_t* targets;  // [rows], each in [0, columns), or null
  const uint8_t* mask;     // [rows] or null; 0: the row is not read, its results are NaN and -1
  double temperature;      // in [1e-18, 1e18]
  int64_t sequences;       // means are taken over the rows [begins[i], ends[i]) that the mask leaves
  const int64_t* begins;   // [sequences]
  const int64_t* ends;     // [sequences]
} CollapsarCudaLogits;

// Null fields are not computed. In nats.
typedef struct CollapsarCudaLogitStats {
  uint32_t size;
  int32_t on_device;  // the fields [rows] are device pointers; the means are host memory always
  double* logsumexp;  // [rows]
  double* entropy;
  double* target_logprob;  // needs targets, as do the ranks
  int32_t* argmax;
  int32_t* rank_above;
  int32_t* rank_equal;
  double* mean_entropy;         // [sequences], host; `entropy` may be null all the same
  double* mean_target_logprob;  // [sequences], host; needs targets
} CollapsarCudaLogitStats;

typedef struct CollapsarCudaScores {
  uint32_t size;
  int32_t dtype;
  const void* data;  // element (r, p) at data[r*row_stride + p*column_stride]
  int32_t data_on_device;
  int32_t reserved;
  int64_t rows, columns;  // columns <= INT32_MAX
  int64_t row_stride, column_stride;
} CollapsarCudaScores;

// What tells a row's own column, of `rows` rows and `columns` columns.
typedef struct CollapsarCudaRowLabels {
  uint32_t size;
  int32_t reserved;
  const int32_t* own;        // [rows], each in [0, columns)
  const int64_t* lengths;    // [rows]; per-token values divide by max(length, 1)
  const int32_t* signature;  // [columns], each in [0, columns), or null (all distinct); equal: equivalent prompts
} CollapsarCudaRowLabels;

#define COLLAPSAR_CUDA_MAX_TOP_K 8

// Null fields are not written. In nats.
typedef struct CollapsarCudaRowStats {
  uint32_t size;
  int32_t on_device;    // all fields are device pointers
  double* matched_seq;  // [rows]
  double* matched_token;
  double* marginal_seq;
  double* marginal_token;
  double* loo_marginal_seq;
  double* loo_marginal_token;
  double* posterior_entropy;
  int32_t* argmax;
  int32_t* rank_above;
  int32_t* rank_equal;
  int32_t* hit_rank;     // columns before the first of own's equivalents, as top_columns has them
  int32_t* top_columns;  // [rows, top_k]: by falling score, NaN first; ties by rising column. In a second pass
  int32_t top_k;         // 0..COLLAPSAR_CUDA_MAX_TOP_K, <= columns
  int32_t reserved;
} CollapsarCudaRowStats;

// Token t of row r under prompt p at data[p*prompt_stride + start(r) + t*token_stride], where start(r) is
// row_offsets[r]*token_stride (packed) or r*row_stride (padded, row_offsets null). Past a row's length nothing is read.
typedef struct CollapsarCudaTokens {
  uint32_t size;
  int32_t dtype;
  const void* data;
  int32_t data_on_device;
  int32_t reserved;
  int64_t prompts, rows;
  int64_t prompt_stride, row_stride, token_stride;
  const int64_t* lengths;      // [rows], >= 0
  const int64_t* row_offsets;  // [rows] or null
} CollapsarCudaTokens;

typedef struct CollapsarCudaTokenSums {
  uint32_t size;
  int32_t on_device;
  double* sums;  // (p, r) goes to sums[r*columns + (column_of ? column_of[p] : p)]; nothing else is written
  int64_t columns;
  const int32_t* column_of;  // [prompts], all different, each in [0, columns), host; or null
  // Out: the first (lowest prompt*rows+row, then token) log-prob used that is NaN or +inf; prompt is -1 without any.
  int64_t invalid_prompt, invalid_row, invalid_token;
} CollapsarCudaTokenSums;

// CUDA's handles of memory and events for other processes.
#define COLLAPSAR_CUDA_HANDLE_BYTES 64

typedef struct CollapsarCudaIpcImport {
  uint32_t size;
  // 64: cudaIpcMemHandle_t. 66: as torch.UntypedStorage._share_cuda_() gives it since 2.5 (version, kind, handle);
  // only kind 'c' (cudaMalloc) can be opened.
  uint32_t handle_bytes;
  const void* handle;
  int64_t offset_bytes;      // of the tensor's storage from the start of the allocation that the handle names
  int64_t bytes;             // of the storage
  const void* event_handle;  // 64 bytes, cudaIpcEventHandle_t, or null: the producer has synchronised by itself
  void* pointer;             // out: the storage, a device pointer
  void* base;                // out: what ipc_close wants
} CollapsarCudaIpcImport;

typedef struct CollapsarCudaIpcExport {
  uint32_t size;
  uint32_t reserved;
  const void* pointer;                                      // in memory from alloc() of this device
  int64_t offset_bytes;                                     // out: of `pointer` from the start of the allocation
  unsigned char handle[COLLAPSAR_CUDA_HANDLE_BYTES];        // out
  unsigned char event_handle[COLLAPSAR_CUDA_HANDLE_BYTES];  // out: recorded after all that this device has been given
  void* event;                                              // out: keeps the event alive; give it to ipc_export_end
} CollapsarCudaIpcExport;

typedef struct CollapsarCudaBackend {
  uint32_t size;  // of this table
  uint32_t abi_version;
  const char* build;  // for people: the toolkit and the architectures, "CUDA 13.0, sm_80 sm_89 sm_90 sm_100 ptx_100"

  // Creates no context, but starts the driver: a later fork must exec to use it. *count is 0 only with an error.
  CollapsarCudaStatus (*device_count)(int32_t* count, CollapsarCudaError* error);
  // As device_count; info->size is the caller's, index 0..count-1.
  CollapsarCudaStatus (*device_info)(int32_t index, CollapsarCudaDeviceInfo* info, CollapsarCudaError* error);

  // Creates the device's primary context if the process has none.
  CollapsarCudaStatus (*open)(int32_t index, CollapsarCudaDevice** device, CollapsarCudaError* error);
  // Waits for what runs and frees staging and workspace; memory from alloc() and ipc_import() is freed or closed first
  // by the caller, and what is left of it stays taken until the process ends. Null is ignored.
  void (*close)(CollapsarCudaDevice* device);

  CollapsarCudaStatus (*memory_info)(CollapsarCudaDevice* device, int64_t* free_bytes, int64_t* total_bytes,
                                     CollapsarCudaError* error);
  // 256-byte aligned, contents undefined. bytes 0 gives null and OK.
  CollapsarCudaStatus (*alloc)(CollapsarCudaDevice* device, int64_t bytes, void** pointer, CollapsarCudaError* error);
  // Null is ignored. Waits for the work that may use the memory.
  CollapsarCudaStatus (*free)(CollapsarCudaDevice* device, void* pointer, CollapsarCudaError* error);
  CollapsarCudaStatus (*upload)(CollapsarCudaDevice* device, void* to, const void* from_host, int64_t bytes,
                                const CollapsarCudaControl* control, CollapsarCudaError* error);
  CollapsarCudaStatus (*download)(CollapsarCudaDevice* device, void* to_host, const void* from, int64_t bytes,
                                  const CollapsarCudaControl* control, CollapsarCudaError* error);

  // Opens another process's memory, at once. Later operations wait, and can be cancelled, until the producer's event
  // has happened or the memory is closed. The producer must keep both until ipc_close. COLLAPSAR_CUDA_BAD_HANDLE in the
  // process that exported it: CUDA cannot.
  CollapsarCudaStatus (*ipc_import)(CollapsarCudaDevice* device, CollapsarCudaIpcImport* import,
                                    CollapsarCudaError* error);
  CollapsarCudaStatus (*ipc_close)(CollapsarCudaDevice* device, void* base, CollapsarCudaError* error);
  CollapsarCudaStatus (*ipc_export)(CollapsarCudaDevice* device, CollapsarCudaIpcExport* out,
                                    CollapsarCudaError* error);
  void (*ipc_export_end)(CollapsarCudaDevice* device, void* event);

  CollapsarCudaStatus (*logit_stats)(CollapsarCudaDevice* device, const CollapsarCudaLogits* logits,
                                     const CollapsarCudaLogitStats* out, const CollapsarCudaControl* control,
                                     CollapsarCudaError* error);
  CollapsarCudaStatus (*score_stats)(CollapsarCudaDevice* device, const CollapsarCudaScores* scores,
                                     const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                                     const CollapsarCudaControl* control, CollapsarCudaError* error);
  CollapsarCudaStatus (*sum_tokens)(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                                    CollapsarCudaTokenSums* out, const CollapsarCudaControl* control,
                                    CollapsarCudaError* error);
  // [P,R,T] -> row statistics, from float64 sums [R,P] that stay on the device. Column p is prompt p; labels->lengths
  // may be null for the tokens' own. `sums`, if not null, receives the sums too (columns = prompts, no column_of).
  CollapsarCudaStatus (*tokens_to_row_stats)(CollapsarCudaDevice* device, const CollapsarCudaTokens* tokens,
                                             const CollapsarCudaRowLabels* labels, const CollapsarCudaRowStats* out,
                                             CollapsarCudaTokenSums* sums, const CollapsarCudaControl* control,
                                             CollapsarCudaError* error);
  // Reads device memory once: the roofline. *sum: of all whole little-endian 64-bit words from `data` on and then of
  // the bytes that remain, modulo 2^64; any alignment.
  CollapsarCudaStatus (*read_bytes)(CollapsarCudaDevice* device, const void* data, int64_t bytes, uint64_t* sum,
                                    const CollapsarCudaControl* control, CollapsarCudaError* error);
} CollapsarCudaBackend;

#define COLLAPSAR_CUDA_ENTRY "collapsar_cuda_backend"

// The only symbol that the backend exports. The table lives as long as the library is loaded.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const CollapsarCudaBackend*
collapsar_cuda_backend(uint32_t version);
typedef const CollapsarCudaBackend* (*CollapsarCudaEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
