// Float16Array, where the runtime has it (Node 24 on): told by its name, as no older runtime knows the type.

/** Two bytes an element, of IEEE binary16; read as numbers. */
export interface Float16ArrayLike {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  readonly [index: number]: number;
}

export function isFloat16Array(value: unknown): value is Float16ArrayLike {
  if (!ArrayBuffer.isView(value)) return false;
  const { BYTES_PER_ELEMENT } = value as unknown as Float16ArrayLike;
  return BYTES_PER_ELEMENT === 2 && value.constructor?.name === 'Float16Array';
}
