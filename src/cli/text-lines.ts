// A stream of text -> its lines, each of a length that a line can have. Not node:readline: it ends the process at a string that V8
// cannot hold, as of a binary file without line ends, and breaks lines at U+2028, which stands in JSON strings as it is.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { FileError } from '../errors.js';

/** No row of a step takes more; what has no line ends must not fill the memory. */
const MOST_CHARACTERS = 2 ** 26;

/**
 * Lines without their ends: \n, \r\n or \r.
 * @param path for messages
 * @throws {FileError} at a line that is too long; whatever the stream fails with
 */
export async function* textLines(
  stream: Readable,
  path: string,
  most = MOST_CHARACTERS,
): AsyncGenerator<string, void, undefined> {
  const decoder = new StringDecoder('utf8');
  let number = 1;
  // Pieces of the line that has no end yet: joined once, however many there are.
  let pieces: string[] = [];
  let held = 0;
  let afterReturn = false;
  for await (const chunk of stream as AsyncIterable<Buffer | string>) {
    const text = typeof chunk === 'string' ? chunk : decoder.write(chunk);
    if (text === '') continue;
    let begin = afterReturn && text[0] === '\n' ? 1 : 0;
    afterReturn = text.endsWith('\r');
    for (const { index, 0: end } of text.matchAll(/\r\n|[\n\r]/g)) {
      // The second half of an end that began in the chunk before.
      if (index < begin) continue;
      if (held + index - begin > most) throw tooLong(path, number, most);
      pieces.push(text.slice(begin, index));
      yield pieces.join('');
      number++;
      pieces = [];
      held = 0;
      begin = index + end.length;
    }
    held += text.length - begin;
    if (held > most) throw tooLong(path, number, most);
    pieces.push(text.slice(begin));
  }
  const last = pieces.join('') + decoder.end();
  if (last !== '') yield last;
}

function tooLong(path: string, line: number, most: number): FileError {
  const problem = `line ${line} has more than ${most} characters: expected lines of text, a row each; is this another kind of file?`;
  return new FileError({ path }, problem);
}
