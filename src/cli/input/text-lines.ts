// A stream of text -> its lines, each of a length that a line can have. Not node:readline: it ends the process at a
// string that V8 cannot hold, as of a binary file without line ends, and breaks lines at U+2028, which stands in JSON
// strings as it is.
import type { Readable } from 'node:stream';
import { unlessAborted } from '../../checks/abort.js';
import { FileError } from '../../checks/errors.js';
import { systemProblem } from '../../logs/stores/system-problem.js';
import { type DecodedPiece, TextDecoding } from './text-decoding.js';

/** No row of a step takes more; what has no line ends must not fill the memory. */
const MOST_CHARACTERS = 2 ** 26;

/**
 * Lines without their ends: \n, \r\n or \r.
 * @param path for messages
 * @param encoding a name that TextDecoder knows; default UTF-8
 * @throws {FileError} at a line that is too long, or has bytes that are not text in the encoding; what the stream
 *   fails with
 */
export async function* textLines(
  stream: Readable,
  path: string,
  { encoding, most = MOST_CHARACTERS }: { encoding?: string | undefined; most?: number | undefined } = {},
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoding(encoding);
  let number = 1;
  // Pieces of the line that has no end yet: joined once, however many there are.
  let pieces: string[] = [];
  let held = 0;
  let afterReturn = false;
  for await (const chunk of stream as AsyncIterable<Buffer | string>) {
    const { text, problem }: DecodedPiece = typeof chunk === 'string' ? { text: chunk } : decoder.decode(chunk);
    if (text === '' && problem === undefined) continue;
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
    if (problem !== undefined) throw notText(path, number, problem);
  }
  const { text: rest, problem } = decoder.decode(undefined);
  if (problem !== undefined) throw notText(path, number, problem);
  const last = pieces.join('') + rest;
  if (last !== '') yield last;
}

/**
 * Gives every line of a stream to `add`, then closes it.
 * @throws {FileError} when it cannot be read; `signal.reason` when aborted, also while a pipe has nothing
 */
export async function readLines(
  stream: Readable,
  path: string,
  encoding: string | undefined,
  signal: AbortSignal,
  add: (line: string) => void,
  most?: number,
): Promise<void> {
  const readAll = async () => {
    for await (const line of textLines(stream, path, { encoding, most })) add(line);
  };
  try {
    // A read of a pipe that nobody writes to cannot be called off.
    await unlessAborted(readAll(), signal);
  } catch (error) {
    if (error instanceof FileError) throw error;
    signal.throwIfAborted();
    throw new FileError({ path }, systemProblem(error), { cause: error });
  } finally {
    stream.destroy();
  }
}

function notText(path: string, line: number, problem: string): FileError {
  return new FileError({ path }, `line ${line} ${problem}`);
}

function tooLong(path: string, line: number, most: number): FileError {
  const problem = `line ${line} has more than ${most} characters: expected lines of text, a row each; is this another kind of file?`;
  return new FileError({ path }, problem);
}
