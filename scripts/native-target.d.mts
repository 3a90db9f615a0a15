export function nativeTarget(name: 'emulatedGpu' | 'rooflines'): string | undefined;
