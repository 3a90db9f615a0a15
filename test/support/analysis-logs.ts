// Small runs of step files for the tests of analysis and command line.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type StepToWrite, writeStep } from '../../src/logs/steps/write-step.js';

export const exampleRuns = fileURLToPath(new URL('../../examples/data/', import.meta.url));

/** A run of TRL: its completions alone. */
export const exampleRollouts = fileURLToPath(new URL('../../examples/rollouts/trl-falling', import.meta.url));

const PROMPTS = 4;
const ROWS = 12;
const TOKENS = 3;

/**
 * A step of 4 prompts × 3 responses of 3 tokens each, whose rows fit their own prompt better by `excess` nats a token.
 */
export function smallStep(step: number, excess = 0.5): StepToWrite & { logprobs: { data: Float32Array } } {
  const data = new Float32Array(PROMPTS * ROWS * TOKENS);
  for (let p = 0; p < PROMPTS; p++) {
    for (let r = 0; r < ROWS; r++) {
      for (let t = 0; t < TOKENS; t++) {
        // Any numbers that differ from cell to cell and from step to step.
        const noise = ((step * 7 + p * 31 + r * 17 + t * 5) % 13) / 26;
        // Log-probs all the same: none is above 0.
        const most = Math.max(1.5, excess);
        data[(p * ROWS + r) * TOKENS + t] = -most - noise + (r % PROMPTS === p ? excess : 0);
      }
    }
  }
  return {
    step,
    logprobs: { data, dtype: 'float32', shape: [PROMPTS, ROWS, TOKENS] },
    lengths: new Int32Array(ROWS).fill(TOKENS),
    group: Int32Array.from({ length: ROWS }, (_, row) => row % PROMPTS),
  };
}

/** Element of `smallStep().logprobs.data`. */
export function elementOf(prompt: number, row: number, token: number): number {
  return (prompt * ROWS + row) * TOKENS + token;
}

/** Writes one step file, with the directories above it, and returns its path. */
export async function putStep(path: string, step: StepToWrite): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  await writeStep(path, step);
  return path;
}

/** A folder with runs of TRL, from the archive of their step files: falling, collapse, filtered, steady. */
export function trlRuns(): string {
  const folder = mkdtempSync(join(tmpdir(), 'collapsar-trl-runs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  execFileSync('tar', ['-xf', fileURLToPath(new URL('../data/trl-runs.tar', import.meta.url)), '-C', folder]);
  return join(folder, 'trl-runs');
}
