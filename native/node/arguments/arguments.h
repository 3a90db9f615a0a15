// JavaScript arguments -> checked native values. Values of JS objects are checked in src/engine; here stands what only
// native code can know or afford: what memory a typed array has at this moment, and whether integers are in range.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/dtype.h"
#include "node/job.h"
#include "node/napi_setup.h"

namespace collapsar {

// Throws a JS error whose property `argument` names the culprit; src/engine makes an ArgumentError of it.
[[noreturn]] void rejectArgument(Napi::Env env, const std::string& argument, const std::string& problem);

// The arguments of one call, taken one after the other.
class Arguments {
 public:
  // device: the engine's, if it has one.
  explicit Arguments(const Napi::CallbackInfo& info, std::shared_ptr<Device> device = nullptr)
      : info_(info), device_(std::move(device)) {}
  Napi::Value next() { return info_[at_++]; }
  std::int64_t integer();
  bool flag();
  DType dtype();  // 0 to 3, as src/engine checked it
  Napi::Env env() const { return info_.Env(); }
  const std::shared_ptr<Device>& device() const { return device_; }

  // Where a job on this tensor runs: on the GPU if it is there (data is a number), or the engine sends host tensors
  // there.
  void placeJob(Job& job, Napi::Value data) const;

 private:
  const Napi::CallbackInfo& info_;
  std::shared_ptr<Device> device_;
  std::size_t at_ = 0;
};

// Values each in [low, high], copied: what JavaScript does to the array later changes nothing.
// Takes an Int32Array, a BigInt64Array or a Float64Array of whole numbers.
std::vector<std::int64_t> integers64(Napi::Value array, const char* name, std::int64_t low, std::int64_t high);
std::vector<std::int32_t> integers32(Napi::Value array, const char* name, std::int32_t low, std::int32_t high);
void expectCount(Napi::Env env, const char* name, std::size_t count, std::int64_t expected, const char* what);

Napi::Uint8Array byteArray(Napi::Value value, const char* name);

// One axis of a strided view.
struct Axis {
  std::int64_t extent;
  std::int64_t stride;  // in elements, any sign
};

// The memory of a tensor, for as long as `job` lives. A number is memory of the job's device, which is freed only after
// it. Engine memory and SharedArrayBuffers are held in place, other arrays too if `protectedByCaller` (nobody can
// detach or shrink them), else the part that the axes reach is copied. Rejects axes that leave the array. `bytes`
// receives the reach.
const void* holdTensor(Job& job, Napi::Value array, const char* name, DType dtype, std::initializer_list<Axis> axes,
                       bool protectedByCaller, std::size_t* bytes = nullptr);

// Rejects shapes that no matrix operation takes: rows without columns, and more columns than 32 bits can number.
void expectMatrixShape(Napi::Env env, const char* name, std::int64_t rows, std::int64_t columns);

// A matrix of the engine (data, dtype, rows, columns, rowStride, columnStride) as the seven arguments that tell of it:
// data: TensorData | DeviceMemory, dtype: 0|1|2|3, protected: boolean, rows, columns, rowStride, columnStride: number.
// Its memory is held in a second step, when everything else has been found right.
class MatrixArgument {
 public:
  template <class Matrix>
  MatrixArgument(Arguments& arguments, const char* name, Matrix& matrix)
      : arguments_(arguments), name_(name), data_(arguments.next()) {
    matrix.dtype = arguments.dtype();
    protectedByCaller_ = arguments.flag();
    matrix.rows = arguments.integer();
    matrix.columns = arguments.integer();
    matrix.rowStride = arguments.integer();
    matrix.columnStride = arguments.integer();
  }
  template <class Matrix>
  void hold(Job& job, Matrix& matrix) const {
    arguments_.placeJob(job, data_);
    matrix.data =
        holdTensor(job, data_, name_, matrix.dtype,
                   {{matrix.rows, matrix.rowStride}, {matrix.columns, matrix.columnStride}}, protectedByCaller_);
  }

 private:
  const Arguments& arguments_;
  const char* name_;
  Napi::Value data_;
  bool protectedByCaller_;
};

// As holdTensor for a dense array of `count` int32.
const std::int32_t* holdInt32(Job& job, Napi::Value array, const char* name, std::int64_t count,
                              bool protectedByCaller);

// As holdTensor for a whole Uint8Array; `bytes` receives its length.
const std::uint8_t* holdBytes(Job& job, Napi::Value array, const char* name, std::size_t* bytes);

// Memory for `count` doubles: engine memory, a SharedArrayBuffer or (a number) the job's device; never a copy.
double* holdOutput(Job& job, Napi::Value array, const char* name, std::int64_t count);

}  // namespace collapsar
