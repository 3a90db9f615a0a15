// Splits a client's bytes into lines. A line that is too long or not UTF-8 is reported and dropped; the next is read as
// usual.
import { isUtf8 } from 'node:buffer';

/** Longest line taken: log-probs that need more come as a file. */
export const MAX_LINE_BYTES = 256 * 2 ** 20;

const NEWLINE = 0x0a;

/** A line without its end, or what is wrong with it. */
export type RequestLine = { readonly text: string; readonly bytes: number } | { readonly problem: string };

/** Empty lines are left out, so that a person may type. Holds one line, and of one that is too long nothing. */
export async function* requestLines(
  input: AsyncIterable<Uint8Array>,
  maxBytes = MAX_LINE_BYTES,
): AsyncGenerator<RequestLine, void, undefined> {
  let pieces: Uint8Array[] = [];
  let held = 0;
  let tooLong = false;
  const add = (piece: Uint8Array): void => {
    held += piece.length;
    tooLong ||= held > maxBytes;
    if (tooLong) pieces = [];
    else if (piece.length > 0) pieces.push(piece);
  };
  const take = (): RequestLine | undefined => {
    const line = tooLong ? undefined : Buffer.concat(pieces);
    const bytes = held;
    pieces = [];
    held = 0;
    tooLong = false;
    if (line === undefined) {
      return { problem: `a line of ${bytes} bytes; the longest taken has ${maxBytes}: give log-probs as a file` };
    }
    if (!isUtf8(line)) return { problem: 'a line that is not UTF-8' };
    const text = line.toString('utf8');
    return text.trim() === '' ? undefined : { text, bytes };
  };
  for await (const chunk of input) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, end));
      from = end + 1;
      const line = take();
      if (line !== undefined) yield line;
    }
    add(chunk.subarray(from));
  }
  const last = take();
  if (last !== undefined) yield last;
}
