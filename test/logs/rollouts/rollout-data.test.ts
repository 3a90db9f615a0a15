// Real logs, read in place where there is a folder `shared` beside this checkout: not part of the repository.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readAll } from './rollout-logs.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const data = ['shared', '../shared', '../../shared'].map((folder) => join(root, folder, 'data')).find(existsSync) ?? '';
const verl = join(data, 'gsm-verl');
const trl = join(data, 'trl-runs');

describe.skipIf(data === '' || !existsSync(verl))('the verl log of gsm-verl', () => {
  it.each(['drift', 'steady'])(
    'has twenty steps of 16 prompts × 4 in %s, each with reasoning and answer',
    async (run) => {
      const { steps, errors, notes } = await readAll(join(verl, run));
      expect([errors, notes]).toEqual([[], []]);
      expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
      for (const step of steps) {
        expect(step).toMatchObject({ format: 'verl', run, rows: 64, groupSource: 'id', badRows: 0, repeats: 0 });
        expect(step.groupIds).toHaveLength(16);
        expect(step.action?.every((action) => action !== undefined)).toBe(true);
        expect(step.reward?.every((reward) => reward === 0 || reward === 1)).toBe(true);
      }
    },
  );
});

describe.skipIf(data === '' || !existsSync(trl))("TRL's Parquet of trl-runs", () => {
  it.each(['collapse', 'falling', 'filtered', 'steady'])(
    '%s: every step is 16 runs of 8 rows, each of one prompt',
    async (run) => {
      const folder = join(trl, run, 'completions');
      const { steps, errors } = await readAll(folder);
      expect(errors).toEqual([]);
      expect(steps).toHaveLength(readdirSync(folder).length);
      for (const step of steps) {
        expect(step).toMatchObject({ format: 'trl', run, rows: 128, groupSource: 'prompt' });
        // A prompt may be drawn twice: its rows are one group then.
        expect(step.groupIds).toEqual([...new Set(step.prompt)]);
        const first = step.group?.map((_, row, group) => group[row - (row % 8)] as number);
        expect(step.group).toEqual(first);
        expect(Object.keys(step.rewards ?? {})).toEqual(['correct', 'shape']);
      }
    },
  );
});
