// Estimates the memory of a piece of JSON when it is read, which may be many times its bytes.

/** Of a value in a list or an object, and of the list or object. */
const VALUE_BYTES = 32;
const NESTED_BYTES = 64;

const [COMMA, BRACE, BRACKET] = [0x2c, 0x7b, 0x5b];

/** At most, about: marks within texts count as well. */
export function jsonSize(bytes: Uint8Array): number {
  let [commas, nested] = [0, 0];
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === COMMA) commas++;
    else if (byte === BRACE || byte === BRACKET) nested++;
  }
  return bytes.length + commas * VALUE_BYTES + nested * NESTED_BYTES;
}
