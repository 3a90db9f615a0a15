// Threads that parse blocks of lines. They are begun with the first block that is worth it, and end with the reading.
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../../../checks/package-root.js';
import type { RowBatch } from '../rows/row-batch.js';
import { giveBack, newBlock } from './line-blocks.js';
import { type BlockContext, parseLines } from './parse-lines.js';

/** Handing over less costs as much as parsing it. */
const WORTH_A_THREAD = 2 ** 17;

/** Rows live until their block is finished: with more room fewer of them are copied by the collector. */
const YOUNG_MB = 64;

/** Compiled beside the package's other modules; the command's bundle and the tests' sources find it there as well. */
const WORKER = join(packageRoot, 'dist', 'logs', 'rollouts', 'json-lines', 'parse-worker.js');

export interface ParseRequest {
  readonly bytes: Uint8Array;
  readonly context: BlockContext;
  readonly isLast: boolean;
  /** For the texts. */
  readonly room: Uint8Array;
}

export interface ParseAnswer {
  /** The block and the room, whose memory comes back. */
  readonly bytes: Uint8Array;
  readonly room: Uint8Array;
  readonly batch?: RowBatch;
  readonly error?: unknown;
}

interface Thread {
  readonly worker: Worker;
  readonly waiting: { resolve: (batch: RowBatch) => void; reject: (error: unknown) => void }[];
}

export class ParsePool {
  readonly threads: number;
  readonly #pool: Thread[] = [];

  /** @param threads 1: everything is parsed where it is read. Default: the processor's */
  constructor(threads = availableParallelism()) {
    this.threads = threads > 1 && existsSync(WORKER) ? threads : 1;
  }

  /** @param bytes whole lines; their memory is taken over */
  async parse(bytes: Buffer, context: BlockContext, isLast: boolean): Promise<RowBatch> {
    if (this.threads === 1 || (bytes.length < WORTH_A_THREAD && this.#pool.length === 0)) {
      const room = newBlock(bytes.length);
      const batch = parseLines(bytes, context, isLast, room);
      giveBack(bytes.buffer);
      if (batch.texts === undefined) giveBack(room.buffer);
      return batch;
    }
    const thread = this.#idlest();
    return new Promise((resolve, reject) => {
      thread.waiting.push({ resolve, reject });
      const room = newBlock(bytes.length);
      const request: ParseRequest = { bytes, context, isLast, room };
      thread.worker.postMessage(request, [bytes.buffer as ArrayBuffer, room.buffer as ArrayBuffer]);
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#pool.map(({ worker }) => worker.terminate()));
  }

  #idlest(): Thread {
    let best: Thread | undefined;
    for (const thread of this.#pool) {
      if (best === undefined || thread.waiting.length < best.waiting.length) best = thread;
    }
    if (best !== undefined && (best.waiting.length === 0 || this.#pool.length === this.threads)) return best;
    return this.#begin();
  }

  #begin(): Thread {
    const worker = new Worker(WORKER, { resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB } });
    const thread: Thread = { worker, waiting: [] };
    worker.on('message', (answer: ParseAnswer) => {
      const next = thread.waiting.shift();
      giveBack(answer.bytes.buffer);
      if (answer.batch?.texts === undefined) giveBack(answer.room.buffer);
      if (answer.batch === undefined) next?.reject(answer.error);
      else next?.resolve(answer.batch);
    });
    const fail = (error: Error) => {
      for (const { reject } of thread.waiting.splice(0)) reject(error);
    };
    worker.on('error', fail);
    worker.on('exit', () => fail(new Error('a thread that parses the log ended early')));
    this.#pool.push(thread);
    return thread;
  }
}
