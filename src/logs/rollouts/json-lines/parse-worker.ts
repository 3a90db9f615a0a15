// A thread of parse-pool.ts.
import { parentPort } from 'node:worker_threads';
import { bufferOver } from '../logged-text.js';
import { parseLines } from './parse-lines.js';
import type { ParseAnswer, ParseRequest } from './parse-pool.js';

parentPort?.on('message', ({ bytes, context, isLast, room }: ParseRequest) => {
  let answer: ParseAnswer;
  try {
    answer = { bytes, room, batch: parseLines(bufferOver(bytes), context, isLast, bufferOver(room)) };
  } catch (error) {
    answer = { bytes, room, error };
  }
  parentPort?.postMessage(answer, [bytes.buffer as ArrayBuffer, room.buffer as ArrayBuffer]);
});
