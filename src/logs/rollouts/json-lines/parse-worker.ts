// A thread of parse-pool.ts.
import { parentPort } from 'node:worker_threads';
import { parseLines } from './parse-lines.js';
import type { ParseAnswer, ParseRequest } from './parse-pool.js';

parentPort?.on('message', ({ bytes, context, isLast }: ParseRequest) => {
  let answer: ParseAnswer;
  try {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    answer = { bytes, batch: parseLines(text, context, isLast) };
  } catch (error) {
    answer = { bytes, error };
  }
  parentPort?.postMessage(answer, [bytes.buffer as ArrayBuffer]);
});
