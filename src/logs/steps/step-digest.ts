// Digests the bytes that say what is where in a step file: with size and time this identifies a content.
import { createHash, hash as hashOf } from 'node:crypto';

/** Short, and another one for other pieces. */
export function headerDigest(...pieces: readonly (Uint8Array | string)[]): string {
  const [only] = pieces;
  // Half the time for the one small piece that a step file mostly has.
  if (only !== undefined && pieces.length === 1) return hashOf('sha256', only, 'hex').slice(0, 32);
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex').slice(0, 32);
}
