// A thread of parse-pool.ts.
import { parentPort } from 'node:worker_threads';
import { parseLines } from './parse-lines.js';
import type { ParseAnswer, ParseRequest } from './parse-pool.js';

parentPort?.on('message', ({ bytes, context, isLast }: ParseRequest) => {
  let answer: ParseAnswer;
  try {
    answer = { batch: parseLines(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), context, isLast) };
  } catch (error) {
    answer = { error: error as Error };
  }
  parentPort?.postMessage(answer);
});
