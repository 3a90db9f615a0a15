// Texts as they come from a log: long ones as bytes in UTF-8, which figures read without making a string.

/** A text, or its bytes in UTF-8. */
export type LoggedText = string | Uint8Array;

export function textOf(text: LoggedText): string {
  return typeof text === 'string' ? text : bufferOver(text).toString('utf8');
}

export function isSameText(one: LoggedText | undefined, other: LoggedText | undefined): boolean {
  if (one === other) return true;
  if (one === undefined || other === undefined) return false;
  if (typeof one === 'string' || typeof other === 'string') return textOf(one) === textOf(other);
  return bufferOver(one).equals(other);
}

/** The same memory. */
export function bufferOver({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
