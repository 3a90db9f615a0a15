// Native code's names for memory of a GPU.

/** Memory of an engine's GPU: a number that is given once in a process (native/node/gpu/device.h). */
export type DeviceMemory = number & { readonly deviceMemory: unique symbol };
