// Node-API through node-addon-api, with the switches that every file of this folder must share.
#pragma once

#ifndef NAPI_VERSION
#define NAPI_VERSION 8
#endif
#ifndef NAPI_CPP_EXCEPTIONS
#define NAPI_CPP_EXCEPTIONS
#endif
// A worker that is being terminated can take no exception; without this node-addon-api would end the whole process.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS

#include <napi.h>
