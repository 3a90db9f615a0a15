// Streams that keep what a command writes, for tests of commands within the test's own process.

import { ReaderGone, type Streams, type TextStream } from '../../src/cli/output/streams.js';
import { runProgram } from '../../src/cli/program.js';

export interface Kept extends TextStream {
  readonly pieces: string[];
  readonly text: string;
  close(): void;
}

export function keeping(options: { isTTY?: boolean; columns?: number; onWrite?: (text: string) => void } = {}): Kept {
  const closing = new AbortController();
  const pieces: string[] = [];
  return {
    isTTY: options.isTTY ?? false,
    columns: options.columns,
    closed: closing.signal,
    pieces,
    get text() {
      return pieces.join('');
    },
    close: () => closing.abort(new ReaderGone()),
    async write(text) {
      if (closing.signal.aborted) return;
      pieces.push(text);
      options.onWrite?.(text);
    },
  };
}

/** Runs `collapsar ...args` and gives its exit status and all that it wrote. */
export async function collapsar(
  args: readonly string[],
  streams: Partial<Streams> & { out?: Kept; err?: Kept } = {},
): Promise<{ status: number; out: string; err: string }> {
  const { out = keeping(), err = keeping(), environment = { LANG: 'C.UTF-8' } } = streams;
  const signal = streams.signal ?? new AbortController().signal;
  const status = await runProgram(args, { out, err, environment, signal });
  return { status, out: out.text, err: err.text };
}
