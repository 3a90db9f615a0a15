#!/usr/bin/env node
// The command `collapsar`: the process around runProgram.
import { Interrupted, textStream } from './output/streams.js';
import { runProgram } from './program.js';

const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // Once: a second one ends the process at once.
  process.once(signal, () => ending.abort(new Interrupted(signal)));
}

process.exitCode = await runProgram(process.argv.slice(2), {
  out: textStream(process.stdout, 'stdout'),
  err: textStream(process.stderr, 'stderr'),
  environment: process.env,
  signal: ending.signal,
});

const { reason } = ending.signal;
if (reason instanceof Interrupted) {
  // A read of a pipe that nobody writes to cannot be called off, and would keep the process.
  setTimeout(() => process.kill(process.pid, reason.signal), 1000).unref();
}
