// Hashes any value of a log into a digest so that different values give different bytes.
import type { Hash } from 'node:crypto';

/** Texts count by what they say: whether somebody has read them already makes no difference. */
export function hashValue(hash: Hash, value: unknown): void {
  if (value === undefined || value === null) hash.update('-');
  else if (typeof value === 'string') hashBytes(hash, 's', Buffer.from(value));
  else if (value instanceof Uint8Array) hashBytes(hash, 's', value);
  else if (ArrayBuffer.isView(value))
    hashBytes(hash, value.constructor.name, new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  else if (Array.isArray(value)) {
    hash.update(`[${value.length};`);
    for (const one of value) hashValue(hash, one);
  } else if (value instanceof Date) hash.update(`d${value.getTime()};`);
  else if (typeof value === 'object') {
    const entries = Object.entries(value);
    hash.update(`{${entries.length};`);
    for (const [name, one] of entries) {
      hashValue(hash, name);
      hashValue(hash, one);
    }
  } else hash.update(`${typeof value}${Object.is(value, -0) ? '-0' : String(value)};`);
}

function hashBytes(hash: Hash, kind: string, bytes: Uint8Array): void {
  hash.update(`${kind}${bytes.length};`);
  hash.update(bytes);
}
