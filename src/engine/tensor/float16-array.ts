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

/** The bits of its elements, in the same memory: what operations read. */
export function halfBits({ buffer, byteOffset, length }: Float16ArrayLike): Uint16Array {
  return new Uint16Array(buffer, byteOffset, length);
}

export function isFloat16Array(value: unknown): value is Float16ArrayLike {
  if (!ArrayBuffer.isView(value)) return false;
  const { BYTES_PER_ELEMENT } = value as unknown as Float16ArrayLike;
  return BYTES_PER_ELEMENT === 2 && value.constructor?.name === 'Float16Array';
}
