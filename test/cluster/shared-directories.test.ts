// Directories of results and states that other users write to as well: what they put in the way under the names of our
// own files must not lead us to write elsewhere.
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Journal } from '../../src/analysis/store/journal.js';
import { AtomicFile } from '../../src/logs/stores/atomic-file.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const directory = temporaryDirectory();
const folder = () => mkdtempSync(join(directory, 'x'));

/** A file of this user, elsewhere. */
function keepsake(): string {
  const path = join(folder(), 'keys');
  writeFileSync(path, 'mine\n');
  return path;
}

describe.skipIf(process.platform === 'win32')('a link in the place of', () => {
  it('a file that is being written is taken away, not followed', async () => {
    const [where, kept] = [folder(), keepsake()];
    const temporary = join(where, `.metrics.jsonl.${process.pid}.tmp`);
    symlinkSync(kept, temporary);
    const file = await AtomicFile.open(where, 'metrics.jsonl');
    await file.write('{}\n');
    const lines = [];
    for await (const line of file.lines()) lines.push(line);
    expect(lines).toEqual(['{}\n']);
    await file.complete();
    expect(readFileSync(kept, 'utf8')).toBe('mine\n');
    expect(lstatSync(join(where, 'metrics.jsonl')).isFile()).toBe(true);
    expect(readFileSync(join(where, 'metrics.jsonl'), 'utf8')).toBe('{}\n');
  });

  it('a file that is complete is replaced, not followed', async () => {
    const [where, kept] = [folder(), keepsake()];
    symlinkSync(kept, join(where, 'summary.json'));
    const file = await AtomicFile.open(where, 'summary.json');
    await file.write('{}\n');
    await file.complete();
    expect(readFileSync(kept, 'utf8')).toBe('mine\n');
    expect(readFileSync(join(where, 'summary.json'), 'utf8')).toBe('{}\n');
  });

  it('a journal is refused, whether or not it leads somewhere', async () => {
    const [where, kept] = [folder(), keepsake()];
    const journal = join(where, '.collapsar-journal');
    for (const target of [kept, join(where, 'nothing')]) {
      execFileSync('ln', ['-sfn', target, journal]);
      await expect(Journal.open(where, {})).rejects.toThrow(`${journal}: cannot write here: this is a symbolic link`);
    }
    expect(readFileSync(kept, 'utf8')).toBe('mine\n');
    expect(() => lstatSync(join(where, 'nothing'))).toThrow(/ENOENT/);
  });
});

it.skipIf(process.platform === 'win32')('a pipe under the name of an unfinished file does not hold us up', async () => {
  const where = folder();
  execFileSync('mkfifo', [join(where, `.state.${process.pid}.tmp`)]);
  const file = await AtomicFile.open(where, 'state');
  await file.write('x');
  await file.complete();
  expect(readFileSync(join(where, 'state'), 'utf8')).toBe('x');
});
