// A pipe where a file of ours belongs: an error at once. To open it would wait for a writer, and not even SIGTERM ends
// that.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readManifest } from '../../src/analysis/shards/manifest-reader.js';
import { mergeStates } from '../../src/analysis/shards/merge.js';
import { Journal } from '../../src/analysis/store/journal.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { finalized, mapAll, mapOne, type PlannedRuns, planRuns, putRuns } from './shards/shards-runs.js';

const directory = temporaryDirectory();
const folder = () => mkdtempSync(join(directory, 'x'));

let engine: Engine;
let runs: PlannedRuns;

beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
  runs = await planRuns(await putRuns(join(directory, 'runs'), [2]), directory, { shards: 1 });
  await mapAll(runs, engine);
});
afterAll(() => engine.dispose());

function pipe(...path: string[]): string {
  const at = join(...path);
  rmSync(at, { force: true });
  execFileSync('mkfifo', [at]);
  return at;
}

describe.skipIf(process.platform === 'win32')('a pipe in the place of', () => {
  const refused = /this is a pipe, a socket or a device, not a file/;

  it('is refused for a manifest', async () => {
    const manifest = pipe(folder(), 'manifest.json');
    await expect(readManifest(manifest)).rejects.toThrow(refused);
    await expect(finalized(manifest, runs.states)).rejects.toThrow(manifest);
  });

  it('is refused for a state', async () => {
    const state = pipe(folder(), 'a.state');
    await expect(mergeStates([state], { out: join(directory, 'out') })).rejects.toThrow(refused);
    await expect(finalized(runs.manifest, state)).rejects.toThrow(refused);
    const states = join(folder(), 'states');
    mkdirSync(join(states, 'shards'), { recursive: true });
    pipe(states, 'shards', '00000.state');
    await expect(mapOne({ ...runs, states }, engine, 0)).rejects.toThrow(refused);
  });

  it('is refused for a marker', async () => {
    const states = join(folder(), 'states');
    cpSync(runs.states, states, { recursive: true });
    pipe(states, 'completions', '00000');
    await expect(mapOne({ ...runs, states }, engine, 0)).rejects.toThrow(/a device, a pipe or a socket/);
  });

  it('is refused for a journal', async () => {
    const where = folder();
    pipe(where, '.collapsar-journal');
    await expect(Journal.open(where, {})).rejects.toThrow(refused);
  });
});
