// A pipe where a file of ours belongs: an error at once. To open it would wait for a writer, and not even SIGTERM ends
// that.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Journal } from '../../src/analysis/store/journal.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { finished, measureOne, putRuns } from './store/shard-runs.js';

const directory = temporaryDirectory();
const folder = () => mkdtempSync(join(directory, 'x'));

let engine: Engine;
let source: string;

beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
  source = await putRuns(join(directory, 'runs'), [2]);
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

  it('is refused for a journal of a shard, and among those of shards', async () => {
    const out = folder();
    mkdirSync(join(out, 'journals'));
    for (const name of ['0-of-1', '.0-of-1']) {
      const path = pipe(out, 'journals', name);
      await expect(measureOne(engine, source, out, 0, 1)).rejects.toThrow(refused);
      await expect(finished(engine, source, out)).rejects.toThrow(`${path}: cannot be read: this is a pipe`);
      rmSync(path);
    }
  });

  it('is refused for a journal', async () => {
    const where = folder();
    pipe(where, '.collapsar-journal');
    await expect(Journal.open(where, {})).rejects.toThrow(refused);
  });
});
