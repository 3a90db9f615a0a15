// Streams of a command and what ends it: two text streams and a signal, so that tests can hand in their own.
import type { Writable } from 'node:stream';
import { writeError } from '../../logs/stores/atomic-file.js';

export interface TextStream {
  readonly isTTY: boolean;
  /** Columns of the terminal; undefined if there is none, or it does not know. */
  readonly columns: number | undefined;
  /**
   * Aborted when nothing can be written any more: with a ReaderGone, or with a FileError that says why (a full disk).
   */
  readonly closed: AbortSignal;
  /** Resolves when there is room for more. Never rejects: what cannot be written is dropped, and aborts `closed`. */
  write(text: string): Promise<void>;
}

export interface Streams {
  readonly out: TextStream;
  readonly err: TextStream;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted with an Interrupted when the user or the system asks the command to end. */
  readonly signal: AbortSignal;
}

/** The user or the system asked the command to end. */
export class Interrupted extends Error {
  constructor(readonly signal: 'SIGINT' | 'SIGTERM') {
    super(`interrupted by ${signal}`);
    this.name = 'Interrupted';
  }

  /** What a shell reports for a process that this signal ended. */
  get exitCode(): number {
    return this.signal === 'SIGINT' ? 130 : 143;
  }
}

/** The program that read the output has ended (EPIPE): it has what it wanted. */
export class ReaderGone extends Error {
  constructor() {
    super('nobody reads the output any more');
    this.name = 'ReaderGone';
  }
}

/**
 * JSON's strings hold these as they are, and a terminal obeys them: the second set of controls, and what turns text
 * around.
 */
const STEERING = /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The same JSON, as a terminal can take it. */
function forTerminal(text: string): string {
  return text.replace(STEERING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/**
 * A text stream over a stream of Node.
 * @param name for messages: stdout
 */
export function textStream(stream: Writable & { isTTY?: boolean; columns?: number }, name: string): TextStream {
  const closing = new AbortController();
  stream.on('error', (error: NodeJS.ErrnoException) => {
    closing.abort(error.code === 'EPIPE' ? new ReaderGone() : writeError(name, error));
  });
  return {
    isTTY: stream.isTTY === true,
    get columns() {
      // Terminals of unknown size report 0: those of `docker run -t`, expect, some editors.
      return stream.columns || undefined;
    },
    closed: closing.signal,
    write: (text) =>
      new Promise((resolve) => {
        if (closing.signal.aborted) resolve();
        else stream.write(stream.isTTY === true ? forTerminal(text) : text, () => resolve());
      }),
  };
}
