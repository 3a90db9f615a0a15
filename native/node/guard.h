// What stands between JavaScript and every function of the addon. node-addon-api turns Napi::Error into a JS exception;
// any other one would end the process.
#pragma once

#include <exception>
#include <new>

#include "engine/float_mode.h"
#include "memory_shortage.h"
#include "napi_setup.h"

namespace collapsar {

// A JS error with a property `reason`, and `askedBytes` where it is known.
inline Napi::Error shortageError(Napi::Env env, const std::bad_alloc& shortage) {
  Napi::Error error = Napi::Error::New(env, wordsOf(shortage));
  error.Set("reason", Napi::String::New(env, kNoMemory));
  if (const std::size_t asked = askedBytes(shortage); asked > 0)
    error.Set("askedBytes", Napi::Number::New(env, static_cast<double>(asked)));
  return error;
}

// Calls body() in the default floating-point mode, whatever that of the JS thread; what it throws becomes a JS error.
template <class Body>
auto guarded(Napi::Env env, const Body& body) {
  const DefaultFloatMode mode;
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::bad_alloc& shortage) {
    throw shortageError(env, shortage);
  } catch (const std::exception& error) {
    throw Napi::Error::New(env, error.what());
  }
}

// A function of the addon, guarded.
template <Napi::Value (*function)(const Napi::CallbackInfo&)>
Napi::Value guardedCall(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return function(info); });
}

// A class of the addon whose methods are guarded. Its constructor calls guarded() itself.
template <class Self>
class GuardedObject : public Napi::ObjectWrap<Self> {
 public:
  using Napi::ObjectWrap<Self>::ObjectWrap;

 protected:
  // In place of InstanceMethod.
  template <Napi::Value (Self::*function)(const Napi::CallbackInfo&)>
  static Napi::ClassPropertyDescriptor<Self> method(const char* name) {
    napi_property_descriptor descriptor{};
    descriptor.utf8name = name;
    descriptor.method = [](napi_env env, napi_callback_info raw) -> napi_value {
      return Napi::details::WrapCallback(env, [&]() -> napi_value {
        const Napi::CallbackInfo info(env, raw);
        Self* const self = Self::Unwrap(info.This().As<Napi::Object>());
        return guarded(env, [&] { return (self->*function)(info); });
      });
    };
    return descriptor;
  }
};

}  // namespace collapsar
