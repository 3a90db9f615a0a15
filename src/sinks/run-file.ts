// Names a file or folder after a run: the name cannot lead anywhere else, and no other run has it.
import { createHash } from 'node:crypto';

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a file system or a terminal reads otherwise
const UNSAFE = /[\u0000-\u001f\u007f/\\:*?"<>|]|\p{Surrogate}/gu;

/** File systems take 255; endings follow. */
const MOST_BYTES = 200;

/**
 * @param unsafe what does not stay as it is
 * @returns one path component, in which `_` is what was taken out. Where anything was, or was cut off, a digest of the
 *   name follows: `a:b` is another file than `a_b`
 */
export function fileNameOf(run: string, unsafe = UNSAFE): string {
  // Names of dots only are folders above.
  const clean = run.replace(unsafe, '_').replace(/^\.*$/, '_$&');
  if (clean === run && Buffer.byteLength(run) <= MOST_BYTES) return run;
  // As JSON: UTF-8 has no halves of surrogate pairs.
  const digest = createHash('sha256').update(JSON.stringify(run)).digest('hex').slice(0, 8);
  return `${cut(clean, MOST_BYTES - digest.length - 1)}-${digest}`;
}

/** The beginning, of whole characters. */
function cut(text: string, bytes: number): string {
  let end = 0;
  let used = 0;
  for (const character of text) {
    used += Buffer.byteLength(character);
    if (used > bytes) break;
    end += character.length;
  }
  return text.slice(0, end);
}
