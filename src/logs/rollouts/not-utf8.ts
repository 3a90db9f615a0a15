// Finds where bytes stop being text.
import { isUtf8 } from 'node:buffer';

/** The first byte that is not UTF-8, of bytes that are not all UTF-8: its place, from 1, and what it is. */
export function badByteIn(bytes: Buffer): { readonly place: number; readonly byte: string } {
  // The longest beginning that is text, by halves; the last character of a half may be cut, of at most four bytes.
  let good = 0;
  for (let bad = bytes.length; good < bad; ) {
    const middle = (good + bad + 1) >> 1;
    if (isPrefix(bytes.subarray(0, middle))) good = middle;
    else bad = middle - 1;
  }
  // And of that the part which is whole: what begins a character that does not end is where the text goes wrong.
  while (!isUtf8(bytes.subarray(0, good))) good--;
  return { place: good + 1, byte: `0x${bytes[good]?.toString(16)}` };
}

/** Whether text can begin with these bytes. */
function isPrefix(bytes: Buffer): boolean {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    decoder.decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}
