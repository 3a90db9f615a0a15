// A library's peers in a process of their own, so that its memory comes back when it ends, and that it can be stopped:
// one request a line to it, one answer a line back (serve.py has the protocol). The data goes through a file.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { forgetPeak, residentBytes } from '../suite/footprint.mjs';

/** Longest wait for an answer: a call takes two seconds at most, as far as its probe could tell; modules load once. */
const patience = 20;
const startPatience = 60;

/**
 * A case's arrays and our results in one file, one after the other.
 * @returns {Promise<object>} what `load` sends: the file, where each array stands, and the case
 */
export async function writeCase(path, { operation, dtype, out }, { tensor, lengths, own, targets }, ours) {
  const results = Object.fromEntries(Object.entries(ours).map(([name, array]) => [`result ${name}`, array]));
  const file = await open(path, 'w');
  const arrays = {};
  let offset = 0;
  try {
    for (const [name, array] of Object.entries({ tensor: tensor.data, lengths, own, targets, ...results })) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      arrays[name] = { type: array.constructor.name.replace('Array', '').toLowerCase(), offset, length: array.length };
      for (let at = 0; at < bytes.length; ) {
        const { bytesWritten } = await file.write(bytes, at, Math.min(bytes.length - at, 2 ** 28), offset + at);
        at += bytesWritten;
      }
      offset += Math.ceil(bytes.length / 64) * 64;
    }
    await file.truncate(offset);
  } finally {
    await file.close();
  }
  return { path, arrays, operation, dtype, shape: tensor.shape, out };
}

export class PeerProcess {
  #child;
  #lines;
  #time;
  #watch;
  #problem = '';

  /**
   * @param {import('./libraries.mjs').Program} program
   * @param {import('../suite/budget.mjs').TimeBudget} time  of the run: no answer is waited for beyond it
   * @param {import('../suite/footprint.mjs').MemoryWatch} watch
   */
  constructor({ program, args }, time, watch) {
    this.#time = time;
    this.#watch = watch;
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      this.#problem = error.code === 'ENOENT' ? `${program}: not found` : `${program}: ${error.message}`;
    });
    this.#child.stdin.on('error', () => undefined); // it has ended, which reading tells
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    if (this.#child.pid !== undefined) watch.add(this.#child.pid, (reason) => this.#stop(reason));
    process.once('exit', this.#kill);
  }

  #kill = () => this.#child.kill('SIGKILL');

  #stop(reason) {
    this.#problem ||= reason;
    this.#kill();
  }

  async #ask(request, longest = patience) {
    const seconds = Math.min(longest, Math.max(1, this.#time.left()));
    const late = setTimeout(() => this.#stop(`stopped: no answer in ${seconds.toFixed(0)} s`), seconds * 1000);
    try {
      this.#child.stdin.write(`${JSON.stringify(request)}\n`);
      const { value, done } = await this.#lines.next();
      if (done) throw new Error(await this.#ending());
      const answer = JSON.parse(value);
      if (answer.error !== undefined) throw new Error(answer.error);
      return answer;
    } finally {
      clearTimeout(late);
    }
  }

  /** Why there are no more answers. */
  async #ending() {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) await once(this.#child, 'exit');
    return (
      this.#problem || `it ended without an answer (${this.#child.signalCode ?? `status ${this.#child.exitCode}`})`
    );
  }

  /** Versions by name. */
  async versions() {
    return (await this.#ask({ do: 'versions' }, startPatience)).versions;
  }

  /**
   * Hands over a case (writeCase) in place of the one before.
   * @returns {Promise<{ name: string, threads: number }[]>} its peers
   */
  async load(written, threadCounts) {
    return (await this.#ask({ do: 'load', threadCounts, ...written })).peers;
  }

  /** Lets go of the case. */
  async unload() {
    await this.#ask({ do: 'unload' });
  }

  /**
   * Calls a peer once and compares its results with ours.
   * @returns {Promise<{ errors: Record<string, number>, problem: string | null }>} largest differences by name
   */
  check({ name, threads }) {
    return this.#ask({ do: 'check', name, threads });
  }

  /** The median seconds of a call, over about this many seconds. */
  async time({ name, threads }, seconds) {
    return (await this.#ask({ do: 'time', name, threads, seconds })).seconds;
  }

  /** Bytes that it holds; undefined where that cannot be read. */
  memory() {
    return residentBytes(this.#child.pid)?.now;
  }

  /**
   * What some work in this process adds to its memory: `kept` after it, `passing` beyond that in the meantime.
   * @returns {Promise<{ value: T, kept: number | undefined, passing: number | undefined }>}
   * @template T
   */
  async measureMemory(work) {
    const { pid } = this.#child;
    forgetPeak(pid);
    const before = residentBytes(pid);
    const value = await work();
    const after = residentBytes(pid);
    if (before === undefined || after === undefined) return { value, kept: undefined, passing: undefined };
    return { value, kept: Math.max(0, after.now - before.now), passing: Math.max(0, after.peak - after.now) };
  }

  /** Ends it, and with it gives its memory back. */
  async close() {
    process.off('exit', this.#kill);
    const { pid } = this.#child;
    if (pid === undefined) return;
    this.#watch.remove(pid);
    this.#kill(); // it has nothing to tidy up
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
  }
}
