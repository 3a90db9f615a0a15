// bench/peers/peers.py as a child process: one request a line to it, one answer a line back. The data goes through a file.
import { spawn } from 'node:child_process';
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../temporary.mjs';

const script = fileURLToPath(new URL('./peers.py', import.meta.url));
const arrayTypes = new Map([
  [Float64Array, 'float64'],
  [Float32Array, 'float32'],
  [Uint16Array, 'uint16'],
  [Int32Array, 'int32'],
]);

/** Writes arrays one after the other. Returns where each stands. */
async function writeArrays(path, arrays) {
  const file = await open(path, 'w');
  const directory = {};
  let offset = 0;
  try {
    for (const [name, array] of Object.entries(arrays)) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      directory[name] = { type: arrayTypes.get(array.constructor), offset, length: array.length };
      for (let at = 0; at < bytes.length; ) {
        const { bytesWritten } = await file.write(bytes, at, Math.min(bytes.length - at, 2 ** 28));
        at += bytesWritten;
      }
      offset += Math.ceil(bytes.length / 64) * 64;
      const gap = offset - (directory[name].offset + bytes.length);
      if (gap > 0) await file.write(new Uint8Array(gap));
    }
  } finally {
    await file.close();
  }
  return directory;
}

export class Python {
  #child;
  #lines;
  #folder;
  #problem = '';

  /**
   * @returns {Promise<{ python: Python, versions: Record<string, string> } | { problem: string }>}
   */
  static async start() {
    const program = process.env.COLLAPSAR_PYTHON || 'python3';
    const python = new Python();
    try {
      await python.#start(program);
      const versions = await python.#ask({ do: 'versions' });
      return { python, versions };
    } catch (error) {
      await python.close();
      return { problem: `${program}: ${error.message}` };
    }
  }

  async #start(program) {
    this.#folder = temporaryFolder(tmpdir(), 'collapsar-bench-');
    this.#child = spawn(program, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.on('error', (error) => {
      this.#problem = error.code === 'ENOENT' ? 'not found' : error.message;
    });
    this.#child.stdin.on('error', () => undefined); // it has ended, which reading tells
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async #ask(request) {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(this.#problem || 'it ended without an answer');
    const answer = JSON.parse(value);
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  /** Hands over a case with our results. Returns its peers, each with its differences from ours. */
  async load({ operation, dtype, out }, input, ours, threadCounts) {
    const { tensor, lengths, own, targets } = input;
    const path = join(this.#folder, 'case.bin');
    const results = Object.fromEntries(Object.entries(ours).map(([name, array]) => [`result ${name}`, array]));
    const arrays = await writeArrays(path, { tensor: tensor.data, lengths, own, targets, ...results });
    const { shape } = tensor;
    try {
      const { peers } = await this.#ask({ do: 'load', path, arrays, operation, dtype, shape, out, threadCounts });
      return peers;
    } finally {
      await rm(path, { force: true });
    }
  }

  /** The median seconds of a call, over about so many seconds. */
  async time(name, threads, seconds) {
    return (await this.#ask({ do: 'time', name, threads, seconds })).seconds;
  }

  async close() {
    this.#child?.stdin.end();
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }
}
