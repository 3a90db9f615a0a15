// Reads the whole lines of an open file, in little memory.
import type { FileHandle } from 'node:fs/promises';

const READ_BYTES = 2 ** 20;

/**
 * Lines from the file's beginning on, each with its end; bytes after the last line end are left out.
 * @param mostBytes the longest line: at a longer one the reading ends
 */
export async function* fileLines(
  handle: FileHandle,
  mostBytes: number,
): AsyncGenerator<{ bytes: Buffer; position: number }, void, undefined> {
  let held = Buffer.alloc(0);
  let position = 0;
  for (;;) {
    const piece = Buffer.allocUnsafe(READ_BYTES);
    const { bytesRead } = await handle.read(piece, 0, READ_BYTES, position + held.length);
    if (bytesRead === 0 || held.length > mostBytes) return;
    held = Buffer.concat([held, piece.subarray(0, bytesRead)]);
    let begin = 0;
    for (let at = held.indexOf(0x0a); at >= 0; at = held.indexOf(0x0a, begin)) {
      yield { bytes: held.subarray(begin, at + 1), position: position + begin };
      begin = at + 1;
    }
    position += begin;
    held = held.subarray(begin);
  }
}
