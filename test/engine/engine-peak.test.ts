// Measures how much memory an operation takes above its input. Each call has a process of its own
// (engine-peak-call.mjs), because the peak of a process never falls.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale } from '../support/built-command.js';

const MB = 1e6;
const threads = 2;
/**
 * What a first call takes on the JS side, code that was not needed before, the promise, the arrays' objects; or what
 * the JS side gives back in the meantime.
 */
const firstCall = 0.5 * MB;

interface Call {
  operation: 'logitStats' | 'sumTokens' | 'scoreStats' | 'textFigures';
  dtype?: 'float32' | 'float16' | 'bfloat16';
  shape: number[];
  strides?: number[];
}

/** The call's memory above its input, its outputs and the copies of its labels, in bytes. */
async function measured(call: Call): Promise<{ rise: number; outputBytes: number; labelBytes: number }> {
  const program = join(fileURLToPath(new URL('.', import.meta.url)), 'engine-peak-call.mjs');
  const given = JSON.stringify({ ...call, threads });
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', program, given]);
  return JSON.parse(stdout);
}

const K = 2 ** 10;
const M = 2 ** 20;
// Inputs of some 64 MiB: a copy of one, or of one's sixteenth, is seen. Strided: the last dimension is the outermost.
const calls: [string, Call][] = [
  ['logitStats, few long rows', { operation: 'logitStats', dtype: 'float32', shape: [8, 2 * M] }],
  ['logitStats, many short rows', { operation: 'logitStats', dtype: 'float32', shape: [256 * K, 64] }],
  ['logitStats, strided', { operation: 'logitStats', dtype: 'float32', shape: [128, 128 * K], strides: [1, 128] }],
  ['logitStats, float16', { operation: 'logitStats', dtype: 'float16', shape: [256, 128 * K] }],
  ['logitStats, bfloat16', { operation: 'logitStats', dtype: 'bfloat16', shape: [256, 128 * K] }],
  ['sumTokens, few long rows', { operation: 'sumTokens', dtype: 'float32', shape: [2, 8, M] }],
  ['sumTokens, many short rows', { operation: 'sumTokens', dtype: 'float32', shape: [16, 128 * K, 8] }],
  ['sumTokens, strided', { operation: 'sumTokens', dtype: 'float32', shape: [16, K, K], strides: [1, 16 * K, 16] }],
  ['sumTokens, float16', { operation: 'sumTokens', dtype: 'float16', shape: [16, K, 2 * K] }],
  ['sumTokens, bfloat16', { operation: 'sumTokens', dtype: 'bfloat16', shape: [16, K, 2 * K] }],
  ['scoreStats, few long rows', { operation: 'scoreStats', dtype: 'float32', shape: [16, M] }],
  ['scoreStats, many short rows', { operation: 'scoreStats', dtype: 'float32', shape: [256 * K, 64] }],
  ['scoreStats, strided', { operation: 'scoreStats', dtype: 'float32', shape: [4 * K, 4 * K], strides: [1, 4 * K] }],
  ['scoreStats, float16', { operation: 'scoreStats', dtype: 'float16', shape: [8 * K, 4 * K] }],
  ['scoreStats, bfloat16', { operation: 'scoreStats', dtype: 'bfloat16', shape: [8 * K, 4 * K] }],
];

// A sanitizer's own memory grows with what is touched.
const canTell = existsSync('/proc/self/status') && process.env.COLLAPSAR_SANITIZED === undefined;

describe.skipIf(!canTell)('memory above the input, by /proc/self/status', () => {
  beforeAll(() => buildIfStale());

  // Left out: scoreStats with `signatures`, whose tables have an entry a column.
  it.each(calls)('is the outputs and under 1 MB a thread: %s', async (_, call) => {
    const { rise, outputBytes, labelBytes } = await measured(call);
    expect(outputBytes).toBeGreaterThan(0);
    // The outputs are counted, so that the figure is one of this call and not of memory that was there before.
    expect(rise).toBeGreaterThan(outputBytes - firstCall);
    expect(rise - outputBytes - labelBytes).toBeLessThan(threads * MB + firstCall);
  });

  it('keeps 256 MB of the scores of texts at a time, beside those that the half split tests', async () => {
    const [rows, tokens, prompts] = [12_000, 10, 4_000];
    const { rise } = await measured({ operation: 'textFigures', shape: [rows, tokens, prompts] });
    const tested = (rows / 3) * prompts * 8;
    expect(rise).toBeGreaterThan(tested);
    // All scores, of which those of the half split are a quarter, would be 512 MB.
    expect(rise).toBeLessThan(tested + 2 ** 28 + 100 * MB);
  });
});
