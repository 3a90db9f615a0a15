// A file that is damaged, and has a NaN before the damage: which of the two it is listed for does not depend on the
// size of blocks.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import type { FileError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { elementOf, smallStep } from '../support/analysis-logs.js';
import { npyDict, npyOf, zipOf } from '../support/numpy-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const directory = temporaryDirectory();
let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

async function failuresOf(source: string, blockBytes: number): Promise<string[]> {
  const failures: string[] = [];
  const onFailure = ({ message }: FileError) => failures.push(message);
  for await (const _ of analyze(source, { engine, permutations: 0, blockBytes, onFailure }));
  return failures;
}

/** Of smallStep(): 4 prompts × 12 rows × 3 tokens of 4 bytes. */
const PROMPT_BYTES = 12 * 3 * 4;

it.each([1, 2, 3, 4, 5])('damaged blocks are named with blocks of %i prompts', async (prompts) => {
  const { logprobs, lengths, group } = smallStep(1);
  for (const prompt of [0, 2]) logprobs.data[elementOf(prompt, 2, 0)] = Number.NaN;
  const array = (descr: string, shape: number[], data: ArrayBufferView) =>
    npyOf(npyDict(descr, shape), Buffer.from(data.buffer));
  const scores = array('<f4', [4, 12, 3], logprobs.data);
  const members = {
    'cross_logprobs.npy': scores,
    'lengths.npy': array('<i4', [12], lengths),
    'group.npy': array('<i4', [12], group),
  };
  const path = join(directory, `step_${prompts}.npz`);
  writeFileSync(path, zipOf(members, { deflate: true }));
  expect(await failuresOf(path, prompts * PROMPT_BYTES)).toEqual([
    expect.stringContaining('prompt 0, row 2, token 0 is NaN'),
  ]);
  const crc = (value: number) => (value === crc32(scores) ? value ^ 1 : value) >>> 0;
  writeFileSync(path, zipOf(members, { deflate: true, crc }));
  expect(await failuresOf(path, prompts * PROMPT_BYTES)).toEqual([expect.stringContaining('(CRC-32) is wrong')]);
});
