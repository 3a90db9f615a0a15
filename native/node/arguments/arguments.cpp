#include "arguments.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace collapsar {
namespace {

struct View {
  napi_typedarray_type type;
  std::size_t length;
  void* data;
  Napi::Value buffer;
  std::size_t offset;
};

std::string entries(std::size_t count) { return std::to_string(count) + (count == 1 ? " entry" : " entries"); }

// Everything of a typed array, once: another look could see another length or a detached buffer.
View viewOf(Napi::Value array, const char* name) {
  const Napi::Env env = array.Env();
  View view;
  napi_value buffer = nullptr;
  const napi_status status =
      napi_get_typedarray_info(env, array, &view.type, &view.length, &view.data, &buffer, &view.offset);
  if (status != napi_ok) rejectArgument(env, name, "expected a typed array");
  view.buffer = Napi::Value(env, buffer);
  return view;
}

[[noreturn]] void rejectEntry(Napi::Env env, const char* name, std::size_t index, const std::string& value,
                              std::int64_t low, std::int64_t high) {
  std::string expected;
  if (high < low) {
    expected = "expected none at all";
  } else if (high == std::numeric_limits<std::int64_t>::max()) {
    expected = "expected " + std::to_string(low) + " or more";
  } else {
    expected = "expected " + std::to_string(low) + " to " + std::to_string(high);
  }
  rejectArgument(env, name, "entry " + std::to_string(index) + " is " + value + ", " + expected);
}

std::string shortest(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

template <typename Target>
std::vector<Target> integersOf(Napi::Value array, const char* name, std::int64_t low, std::int64_t high) {
  const Napi::Env env = array.Env();
  const View view = viewOf(array, name);
  std::vector<Target> values(view.length);
  const auto copy = [&](auto zero) {
    using Source = decltype(zero);
    const Source* const source = static_cast<const Source*>(view.data);
    for (std::size_t i = 0; i < view.length; ++i) {
      // volatile: read once, so that what is checked is what is used although shared memory may change meanwhile.
      const Source value = *const_cast<const volatile Source*>(source + i);
      if constexpr (std::is_same_v<Source, double>) {
        // 2^63 and above, and NaN, cannot be converted.
        if (!(std::trunc(value) == value && std::fabs(value) < 9.2e18)) {
          rejectArgument(env, name,
                         "entry " + std::to_string(i) + " is " + shortest(value) + ", expected a whole number");
        }
      }
      const std::int64_t whole = static_cast<std::int64_t>(value);
      if (whole < low || whole > high) rejectEntry(env, name, i, std::to_string(whole), low, high);
      values[i] = static_cast<Target>(whole);
    }
  };
  switch (view.type) {
    case napi_int32_array:
      copy(std::int32_t{});
      break;
    case napi_bigint64_array:
      copy(std::int64_t{});
      break;
    case napi_float64_array:
      copy(double{});
      break;
    default:
      rejectArgument(env, name, "expected an Int32Array, a BigInt64Array or an array of numbers");
  }
  return values;
}

napi_typedarray_type arrayTypeOf(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return napi_float64_array;
    case DType::Float32:
      return napi_float32_array;
    default:
      return napi_uint16_array;
  }
}

// The memory of the job's device that a number stands for.
DeviceMemory memoryOf(const Job& job, Napi::Value number, const char* name) {
  DeviceMemory memory;
  if (job.device == nullptr || !job.device->find(number.As<Napi::Number>().Uint32Value(), &memory)) {
    rejectArgument(number.Env(), name, "a DeviceTensor whose memory is gone, or of another engine");
  }
  return memory;
}

// Keeps `bytes` at the view's start alive and in place until the job ends; see holdTensor.
void* hold(Job& job, const View& view, std::size_t bytes, bool protectedByCaller) {
  if (bytes == 0) return view.data;
  if (view.buffer.IsArrayBuffer()) {
    const char* const start = static_cast<const char*>(view.data) - view.offset;
    if (std::shared_ptr<MemoryBlock> block = MemoryBlock::find(start)) {
      job.blocks.push_back(std::move(block));
      return view.data;
    }
    if (!protectedByCaller) {
      std::shared_ptr<MemoryBlock> copy = MemoryBlock::allocate(bytes);
      std::memcpy(copy->data(), view.data, bytes);
      void* const data = copy->data();
      job.blocks.push_back(std::move(copy));
      return data;
    }
  }
  job.buffers.push_back(Napi::Persistent(view.buffer.As<Napi::Object>()));
  return view.data;
}

}  // namespace

void rejectArgument(Napi::Env env, const std::string& argument, const std::string& problem) {
  Napi::Error error = Napi::Error::New(env, problem);
  error.Value().DefineProperty(
      Napi::PropertyDescriptor::Value("argument", Napi::String::New(env, argument), napi_enumerable));
  throw error;
}

std::int64_t Arguments::integer() {
  std::int64_t value = 0;
  if (napi_get_value_int64(env(), next(), &value) != napi_ok) throw Napi::TypeError::New(env(), "expected an integer");
  return value;
}

bool Arguments::flag() { return next().ToBoolean(); }

DType Arguments::dtype() { return static_cast<DType>(integer()); }

void Arguments::placeJob(Job& job, Napi::Value data) const {
  job.dataOnDevice = data.IsNumber();
  if (job.dataOnDevice || (device_ != nullptr && device_->takesHostTensors())) job.device = device_;
}

std::vector<std::int64_t> integers64(Napi::Value array, const char* name, std::int64_t low, std::int64_t high) {
  return integersOf<std::int64_t>(array, name, low, high);
}

std::vector<std::int32_t> integers32(Napi::Value array, const char* name, std::int32_t low, std::int32_t high) {
  return integersOf<std::int32_t>(array, name, low, high);
}

Napi::Uint8Array byteArray(Napi::Value value, const char* name) {
  if (value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array)
    return value.As<Napi::Uint8Array>();
  rejectArgument(value.Env(), name, "expected a Uint8Array");
}

void expectCount(Napi::Env env, const char* name, std::size_t count, std::int64_t expected, const char* what) {
  if (static_cast<std::int64_t>(count) == expected) return;
  rejectArgument(env, name,
                 "got " + entries(count) + ", expected " + std::to_string(expected) + " (one a " + what + ")");
}

void expectMatrixShape(Napi::Env env, const char* name, std::int64_t rows, std::int64_t columns) {
  if (rows > 0 && columns == 0) rejectArgument(env, name, "has rows but no columns: each row needs one at least");
  if (columns > std::numeric_limits<std::int32_t>::max()) {
    rejectArgument(env, name, "has " + std::to_string(columns) + " columns, at most 2147483647 are possible");
  }
}

const void* holdTensor(Job& job, Napi::Value array, const char* name, DType dtype, std::initializer_list<Axis> axes,
                       bool protectedByCaller, std::size_t* bytes) {
  const Napi::Env env = array.Env();
  DeviceMemory memory;
  View view{};
  std::int64_t available;
  if (array.IsNumber()) {
    memory = memoryOf(job, array, name);
    available = memory.bytes / static_cast<std::int64_t>(sizeOf(dtype));
    view.data = memory.pointer;
  } else {
    view = viewOf(array, name);
    if (view.type != arrayTypeOf(dtype)) rejectArgument(env, name, "the typed array does not fit the dtype");
    available = static_cast<std::int64_t>(view.length);
  }
  if (bytes != nullptr) *bytes = 0;
  // In 128 bits: extents and strides are below 2^53 each.
  __int128 lowest = 0, highest = 0;
  for (const Axis& axis : axes) {
    if (axis.extent == 0) return view.data;
    const __int128 reach = static_cast<__int128>(axis.extent - 1) * axis.stride;
    (reach < 0 ? lowest : highest) += reach;
  }
  if (lowest < 0) rejectArgument(env, name, "a negative stride reaches before the first element of data");
  if (highest >= static_cast<__int128>(available)) {
    // Of the order of 2^108 at most, so a double shows it well enough once it is past 2^53.
    const std::string last = highest < (__int128{1} << 62) ? std::to_string(static_cast<std::int64_t>(highest))
                                                           : shortest(static_cast<double>(highest));
    rejectArgument(
        env, name,
        "shape and strides reach element " + last + ", but data has " + std::to_string(available) + " elements");
  }
  const std::size_t reached = (static_cast<std::size_t>(highest) + 1) * sizeOf(dtype);
  if (bytes != nullptr) *bytes = reached;
  return array.IsNumber() ? view.data : hold(job, view, reached, protectedByCaller);
}

const std::int32_t* holdInt32(Job& job, Napi::Value array, const char* name, std::int64_t count,
                              bool protectedByCaller) {
  const Napi::Env env = array.Env();
  const View view = viewOf(array, name);
  if (view.type != napi_int32_array) rejectArgument(env, name, "expected an Int32Array");
  if (static_cast<std::int64_t>(view.length) < count) {
    rejectArgument(env, name, "got " + entries(view.length) + ", expected " + std::to_string(count));
  }
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
  return static_cast<const std::int32_t*>(hold(job, view, bytes, protectedByCaller));
}

const std::uint8_t* holdBytes(Job& job, Napi::Value array, const char* name, std::size_t* bytes) {
  const View view = viewOf(array, name);
  if (view.type != napi_uint8_array) rejectArgument(array.Env(), name, "expected a Uint8Array");
  *bytes = view.length;
  return static_cast<const std::uint8_t*>(hold(job, view, view.length, false));
}

double* holdOutput(Job& job, Napi::Value array, const char* name, std::int64_t count) {
  const Napi::Env env = array.Env();
  if (array.IsNumber()) {
    const DeviceMemory memory = memoryOf(job, array, name);
    const std::int64_t elements = memory.bytes / static_cast<std::int64_t>(sizeof(double));
    if (elements < count) {
      rejectArgument(env, name,
                     "data has " + std::to_string(elements) + " elements, the shape needs " + std::to_string(count));
    }
    return static_cast<double*>(memory.pointer);
  }
  const View view = viewOf(array, name);
  if (view.type != napi_float64_array) rejectArgument(env, name, "expected a Float64Array");
  if (static_cast<std::int64_t>(view.length) < count) {
    rejectArgument(env, name,
                   "data has " + std::to_string(view.length) + " elements, the shape needs " + std::to_string(count));
  }
  if (view.buffer.IsArrayBuffer() && count > 0 &&
      MemoryBlock::find(static_cast<const char*>(view.data) - view.offset) == nullptr) {
    rejectArgument(env, name, "expected memory that nothing can take away: use engine.alloc() or a SharedArrayBuffer");
  }
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  return static_cast<double*>(hold(job, view, bytes, true));
}

}  // namespace collapsar
